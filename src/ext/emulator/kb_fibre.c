/* Owns the switch of stacks. */
#include "ext/emulator/kb_fibre.h"

#include <stdint.h>

#ifdef KB_FIBRE_TSAN
#include <sanitizer/tsan_interface.h>
#elif defined(KB_FIBRE_ASAN)
#include <pthread.h>
#include <sanitizer/asan_interface.h>
#include <sanitizer/common_interface_defs.h>
#endif

/* Saves what a function must preserve, and the place to go on, on the stack, whose pointer goes to
 * `*from`; and goes on where `to` was saved. A new fibre's stack holds the same: it begins in
 * kb_fibre_start, with its data and its entry in two of the registers. */
void kb_fibre_swap(void **from, void *to);
void kb_fibre_start(void);

/* A function of this file alone, without a frame. */
#define FUNCTION(name, instructions)                                                               \
    __asm__(".text\n"                                                                              \
            ".type " name ", %function\n"                                                          \
            ".hidden " name "\n"                                                                   \
            ".globl " name "\n" name ":\n" instructions ".size " name ", . - " name "\n")

#ifdef __x86_64__

/* System V ABI: rbx, rbp, r12 to r15. Two words more than these and the place align the stack. */
enum { ENTRY = 2, DATA = 3, PLACE = 6, N_WORDS = 9 };

FUNCTION("kb_fibre_swap", "  pushq %rbp\n"
                          "  pushq %rbx\n"
                          "  pushq %r12\n"
                          "  pushq %r13\n"
                          "  pushq %r14\n"
                          "  pushq %r15\n"
                          "  movq %rsp, (%rdi)\n"
                          "  movq %rsi, %rsp\n"
                          "  popq %r15\n"
                          "  popq %r14\n"
                          "  popq %r13\n"
                          "  popq %r12\n"
                          "  popq %rbx\n"
                          "  popq %rbp\n"
                          "  ret\n");
FUNCTION("kb_fibre_start", "  movq %r12, %rdi\n"
                           "  callq *%r13\n"
                           "  ud2\n");

#elif defined(__aarch64__)

/* Procedure call standard for AArch64: x19 to x28, the frame pointer x29, the place x30, and the
 * low halves of v8 to v15. `ret`, not `br`, may go anywhere where branch targets are checked. */
enum { PLACE = 1, DATA = 2, ENTRY = 3, N_WORDS = 20 };

FUNCTION("kb_fibre_swap", "  stp x29, x30, [sp, #-160]!\n"
                          "  stp x19, x20, [sp, #16]\n"
                          "  stp x21, x22, [sp, #32]\n"
                          "  stp x23, x24, [sp, #48]\n"
                          "  stp x25, x26, [sp, #64]\n"
                          "  stp x27, x28, [sp, #80]\n"
                          "  stp d8, d9, [sp, #96]\n"
                          "  stp d10, d11, [sp, #112]\n"
                          "  stp d12, d13, [sp, #128]\n"
                          "  stp d14, d15, [sp, #144]\n"
                          "  mov x2, sp\n"
                          "  str x2, [x0]\n"
                          "  mov sp, x1\n"
                          "  ldp x19, x20, [sp, #16]\n"
                          "  ldp x21, x22, [sp, #32]\n"
                          "  ldp x23, x24, [sp, #48]\n"
                          "  ldp x25, x26, [sp, #64]\n"
                          "  ldp x27, x28, [sp, #80]\n"
                          "  ldp d8, d9, [sp, #96]\n"
                          "  ldp d10, d11, [sp, #112]\n"
                          "  ldp d12, d13, [sp, #128]\n"
                          "  ldp d14, d15, [sp, #144]\n"
                          "  ldp x29, x30, [sp], #160\n"
                          "  ret\n");
FUNCTION("kb_fibre_start", "  mov x0, x19\n"
                           "  blr x20\n"
                           "  brk #1\n");

#else
#error "kernbridge supports x86-64 and aarch64"
#endif

void kb_fibre_clean(void *memory, size_t size)
{
    (void)memory;
    (void)size;
#ifdef KB_FIBRE_ASAN
    __asan_unpoison_memory_region(memory, size);
#endif
}

void kb_fibre_init(kb_fibre *fibre, void *stack, size_t size, kb_fibre_entry *entry, void *data)
{
#ifdef KB_FIBRE_TSAN
    fibre->sanitizer = __tsan_create_fiber(0);
#elif defined(KB_FIBRE_ASAN)
    fibre->stack = stack;
    fibre->stack_size = size;
    fibre->fake_stack = NULL;
#endif
    kb_fibre_clean(stack, size);
    uintptr_t *words = (uintptr_t *)((char *)stack + size) - N_WORDS;
    words[ENTRY] = (uintptr_t)entry;
    words[DATA] = (uintptr_t)data;
    words[PLACE] = (uintptr_t)kb_fibre_start;
    fibre->sp = words;
}

void kb_fibre_adopt(kb_fibre *fibre)
{
    (void)fibre;
#ifdef KB_FIBRE_TSAN
    fibre->sanitizer = __tsan_get_current_fiber();
#elif defined(KB_FIBRE_ASAN)
    pthread_attr_t attributes;
    void *stack = NULL;
    fibre->stack_size = 0;
    if (pthread_getattr_np(pthread_self(), &attributes) == 0) {
        (void)pthread_attr_getstack(&attributes, &stack, &fibre->stack_size);
        (void)pthread_attr_destroy(&attributes);
    }
    fibre->stack = stack;
    fibre->fake_stack = NULL;
#endif
}

void kb_fibre_begun(kb_fibre *fibre)
{
    (void)fibre;
#ifdef KB_FIBRE_ASAN
    __sanitizer_finish_switch_fiber(fibre->fake_stack, NULL, NULL);
#endif
}

void kb_fibre_switch(kb_fibre *from, kb_fibre *to)
{
#ifdef KB_FIBRE_TSAN
    __tsan_switch_to_fiber(to->sanitizer, 0);
#elif defined(KB_FIBRE_ASAN)
    __sanitizer_start_switch_fiber(&from->fake_stack, to->stack, to->stack_size);
#endif
    kb_fibre_swap(&from->sp, to->sp);
#ifdef KB_FIBRE_ASAN
    __sanitizer_finish_switch_fiber(from->fake_stack, NULL, NULL);
#endif
}

void kb_fibre_drop(kb_fibre *fibre)
{
    (void)fibre;
#ifdef KB_FIBRE_TSAN
    __tsan_destroy_fiber(fibre->sanitizer);
#endif
}
