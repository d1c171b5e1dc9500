/* Owns `stat` for glibc before 2.33, which has no such symbol: its headers called __xstat64. */
#include <sys/stat.h>

#define STAT_VERSION_OF_LINUX 1

int __xstat64(int version, const char *path, struct stat *about); // NOLINT: reserved to glibc
int stat64(const char *path, struct stat *about);

int stat64(const char *path, struct stat *about)
{
    return __xstat64(STAT_VERSION_OF_LINUX, path, about);
}
