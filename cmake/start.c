/* Owns the start of programs for glibc before 2.34, which gave the function a new version.
 *
 * The linker's --wrap sends the call of crt1.o here. There are no constructors, for which the old
 * version would need `init`. */
typedef int kb_main(int, char **, char **);
typedef void kb_hook(void);

int kb_older_start(kb_main *entry, int argc, char **argv, kb_hook *init, kb_hook *fini,
                   kb_hook *at_end, void *stack);
int __wrap___libc_start_main(kb_main *entry, int argc, char **argv, kb_hook *init, kb_hook *fini,
                             kb_hook *at_end,
                             void *stack); // NOLINT: the linker's name

__asm__(".symver kb_older_start, __libc_start_main@" KB_FIRST_GLIBC);

int __wrap___libc_start_main(kb_main *entry, int argc, char **argv, kb_hook *init, kb_hook *fini,
                             kb_hook *at_end, void *stack)
{
    return kb_older_start(entry, argc, argv, init, fini, at_end, stack);
}
