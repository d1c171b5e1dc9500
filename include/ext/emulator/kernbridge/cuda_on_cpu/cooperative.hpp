/* Grids whose blocks wait for each other, in CUDA C++ on the CPU. All blocks run on one thread of
 * the system, and shared memory is memory of that thread: it is exchanged when another block goes
 * on. */
#ifndef KERNBRIDGE_CUDA_ON_CPU_COOPERATIVE_HPP
#define KERNBRIDGE_CUDA_ON_CPU_COOPERATIVE_HPP

#include "kernbridge/cuda_on_cpu/threads.hpp"

#include <link.h>

namespace kernbridge
{
namespace cuda_on_cpu
{

/* The memory of this library that each thread of the system has for itself. */
struct ThreadMemory {
    char *begin;
    size_t size;
};

static inline ThreadMemory memory_of_thread()
{
    static thread_local char inside; /* some of it */
    ThreadMemory found = {&inside, 0};
    dl_iterate_phdr(
        [](struct dl_phdr_info *library, size_t, void *data) {
            ThreadMemory *wanted = static_cast<ThreadMemory *>(data);
            char *begin = static_cast<char *>(library->dlpi_tls_data);
            for (int i = 0; begin && i < library->dlpi_phnum; i++)
                if (library->dlpi_phdr[i].p_type == PT_TLS && wanted->begin >= begin &&
                    wanted->begin < begin + library->dlpi_phdr[i].p_memsz) {
                    *wanted = {begin, library->dlpi_phdr[i].p_memsz};
                    return 1;
                }
            return 0;
        },
        &found);
    return found;
}

/* Its bytes, which each block of a cooperative grid has room for. */
KB_IS(uint32_t, fixed_shared, (), static_cast<uint32_t>(memory_of_thread().size))

/* The block's threads go on, or begin: its shared memory takes the place of the other's. Each block
 * has room for it at the beginning of what the core gives it. */
__attribute__((noinline)) static void enter_block(unsigned char *mine, bool begins)
{
    ThreadMemory memory = memory_of_thread();
    unsigned char *before = resident;
    if (before == mine)
        return;
    if (before)
        memcpy(before, memory.begin, memory.size);
    if (!begins)
        memcpy(memory.begin, mine, memory.size);
    resident = mine;
}

} // namespace cuda_on_cpu
} // namespace kernbridge

#endif
