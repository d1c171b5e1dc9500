/* Constants of CUDA's driver that tests alone name, beside those of abi/kb_cuda.h. */
#ifndef FAKE_CONSTANTS_H
#define FAKE_CONSTANTS_H

/* Results of functions. */
enum {
    KB_CU_DEINITIALIZED = 4,
    KB_CU_NO_DEVICE = 100,
    KB_CU_INVALID_CONTEXT = 201,
};

/* Attributes of a device. */
enum {
    KB_CU_DEVICE_MULTIPROCESSORS = 16,
    KB_CU_DEVICE_COOPERATIVE_LAUNCH = 95,
};

/* Attributes of a kernel. */
enum {
    KB_CU_KERNEL_MAX_THREADS = 0,
    KB_CU_KERNEL_LOCAL = 3,
    KB_CU_KERNEL_REGISTERS = 4,
    KB_CU_KERNEL_NON_PORTABLE_CLUSTER = 14,
};

#endif
