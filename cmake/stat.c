/* Owns `stat` and `fstatat` for glibc before 2.33, which has no such symbols: its headers called
 * these functions. */
#include <sys/stat.h>

#ifdef __aarch64__
#define STAT_VERSION_OF_LINUX 0
#else
#define STAT_VERSION_OF_LINUX 1
#endif

int __xstat64(int version, const char *path, struct stat *about); // NOLINT: reserved to glibc
int __fxstatat64(int version, int folder, const char *path, struct stat *about,
                 int flags); // NOLINT: reserved to glibc
int stat64(const char *path, struct stat *about);
int fstatat64(int folder, const char *path, struct stat *about, int flags);

int stat64(const char *path, struct stat *about)
{
    return __xstat64(STAT_VERSION_OF_LINUX, path, about);
}

int fstatat64(int folder, const char *path, struct stat *about, int flags)
{
    return __fxstatat64(STAT_VERSION_OF_LINUX, folder, path, about, flags);
}
