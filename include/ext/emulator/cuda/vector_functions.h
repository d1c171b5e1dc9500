#include "vector_types.h" // what CUDA has in vector_functions.h
