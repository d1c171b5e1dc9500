/* CUDA C++ on the CPU: what nvcc defines before the first line of a source. The threads of a block
 * take turns on one thread of the system, so shared memory is memory of that thread. A thread that
 * never waits is one round of a loop, which the compiler sees whole. */
#ifndef KERNBRIDGE_CUDA_ON_CPU_RUNTIME_H
#define KERNBRIDGE_CUDA_ON_CPU_RUNTIME_H
#define __CUDA_RUNTIME_H__

#include <cfloat>
#include <climits>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "vector_types.h"

#include "kernbridge/cuda_on_cpu/math.hpp" /* first: it and cuda_fp16.h need it */

#include <math.h> /* its functions need no std:: */
#include <new>
#include <tuple>
#include <utility>

#include "kernbridge/cuda_on_cpu/atomics.hpp"
#include "kernbridge/cuda_on_cpu/host.hpp"
#include "kernbridge/cuda_on_cpu/launch.hpp"
#include "kernbridge/cuda_on_cpu/threads.hpp"
#include "kernbridge/cuda_on_cpu/warps.hpp"
#include "kernbridge/cuda_on_cpu/words.hpp"
#ifdef KB_CUDA_CHECKED
#include "kernbridge/cuda_on_cpu/checked.hpp"
#endif

#endif
