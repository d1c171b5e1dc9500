#include "cuda_runtime.h" // what CUDA has in math_functions.h
