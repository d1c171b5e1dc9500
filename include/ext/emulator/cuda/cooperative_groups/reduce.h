#include "../cooperative_groups.h" // what CUDA has in cooperative_groups/reduce.h
