#include "cuda_runtime.h" // what CUDA has in device_launch_parameters.h
