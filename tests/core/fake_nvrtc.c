/* Owns the fake libnvrtc. With FAKE_NVRTC_LACKS_CUBIN or FAKE_NVRTC_LACKS_WORDS it has one function
 * less. */
#define _DEFAULT_SOURCE /* signal itself; the strict one has another name */
#include "fake_nvrtc.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define EXPORT __attribute__((visibility("default")))

enum { NAMES_MAX = 4, NAME_INVALID = 9 };

typedef struct program {
    char *names[NAMES_MAX];
    char lowered[NAMES_MAX][FAKE_NVRTC_TEXT];
    int n_names, compiled;
} program;

EXPORT fake_nvrtc_state fake_nvrtc;

EXPORT int nvrtcCreateProgram(program **made, const char *source, const char *name, int n,
                              const char *const *headers, const char *const *names);
EXPORT int nvrtcDestroyProgram(program **made);
EXPORT int nvrtcAddNameExpression(program *p, const char *name);
EXPORT int nvrtcCompileProgram(program *p, int n, const char *const *options);
EXPORT int nvrtcGetLoweredName(program *p, const char *name, const char **lowered);
EXPORT int nvrtcGetProgramLogSize(program *p, size_t *size);
EXPORT int nvrtcGetProgramLog(program *p, char *log);
EXPORT int nvrtcGetCUBINSize(program *p, size_t *size);
EXPORT int nvrtcGetCUBIN(program *p, char *cubin);
EXPORT int nvrtcGetPTXSize(program *p, size_t *size);
EXPORT int nvrtcGetPTX(program *p, char *ptx);
EXPORT const char *nvrtcGetErrorString(int code);

static int answer(const char *function)
{
    return fake_nvrtc.fails && strcmp(fake_nvrtc.fails, function) == 0 ? fake_nvrtc.code : 0;
}

static void note(const char *before, const char *text, const char *behind)
{
    size_t n = strlen(fake_nvrtc.given);
    snprintf(fake_nvrtc.given + n, sizeof fake_nvrtc.given - n, "%s%s%s", before, text, behind);
}

int nvrtcCreateProgram(program **made, const char *source, const char *name, int n,
                       const char *const *headers, const char *const *names)
{
    int code = answer(__func__);
    if (code)
        return code;
    *made = calloc(1, sizeof **made);
    if (!*made)
        abort();
    fake_nvrtc.n_programs++;
    fake_nvrtc.given[0] = '\0';
    note("", source, " ");
    note("", name, "");
    for (int i = 0; i < n; i++) {
        note(" <", names[i], ">");
        note("", headers[i], "");
    }
    return 0;
}

int nvrtcDestroyProgram(program **made)
{
    for (int i = 0; i < (*made)->n_names; i++)
        free((*made)->names[i]);
    free(*made);
    *made = NULL;
    fake_nvrtc.n_programs--;
    return 0;
}

int nvrtcAddNameExpression(program *p, const char *name)
{
    int code = answer(__func__);
    if (code || p->n_names == NAMES_MAX)
        return code ? code : NAME_INVALID;
    p->names[p->n_names] = calloc(1, strlen(name) + 1);
    if (!p->names[p->n_names])
        abort();
    strcpy(p->names[p->n_names++], name);
    return 0;
}

static void stop(int number)
{
    (void)number;
    _Exit(4);
}

/* As NVRTC does up to 13.0: what was ignored stays so. */
static void take_signals(void (*during)(void))
{
    void (*interrupted)(int) = signal(SIGINT, SIG_IGN);
    if (interrupted != SIG_IGN)
        signal(SIGINT, stop);
    void (*terminated)(int) = signal(SIGTERM, stop);
    during();
    signal(SIGINT, interrupted);
    signal(SIGTERM, terminated);
}

int nvrtcCompileProgram(program *p, int n, const char *const *options)
{
    if (fake_nvrtc.during)
        take_signals(fake_nvrtc.during);
    for (int i = 0; i < n; i++)
        note(" -", options[i], "");
    p->compiled = answer(__func__) == 0;
    return answer(__func__);
}

/* "low:NAME", of a name that was added before the compilation; it is the program's. */
int nvrtcGetLoweredName(program *p, const char *name, const char **lowered)
{
    int code = answer(__func__);
    if (code)
        return code;
    for (int i = 0; i < p->n_names && p->compiled; i++)
        if (strcmp(p->names[i], name) == 0) {
            snprintf(p->lowered[i], sizeof p->lowered[i], "low:%s", name);
            *lowered = p->lowered[i];
            return 0;
        }
    return NAME_INVALID;
}

/* The size of what is handed out, with its end where it has one. */
static int size_of(const char *text, size_t *size, const char *function)
{
    *size = text ? strlen(text) + !fake_nvrtc.unended : 0;
    return answer(function);
}

static int copy_of(const char *text, char *copy, const char *function)
{
    int code = answer(function);
    if (!code)
        memcpy(copy, text, strlen(text) + !fake_nvrtc.unended);
    return code;
}

int nvrtcGetProgramLogSize(program *p, size_t *size)
{
    (void)p;
    return size_of(fake_nvrtc.log, size, __func__);
}

int nvrtcGetProgramLog(program *p, char *log)
{
    (void)p;
    return copy_of(fake_nvrtc.log, log, __func__);
}

#ifndef FAKE_NVRTC_LACKS_CUBIN
int nvrtcGetCUBINSize(program *p, size_t *size)
{
    (void)p;
    return size_of(fake_nvrtc.cubin, size, __func__);
}

int nvrtcGetCUBIN(program *p, char *cubin)
{
    (void)p;
    return copy_of(fake_nvrtc.cubin, cubin, __func__);
}
#endif

int nvrtcGetPTXSize(program *p, size_t *size)
{
    (void)p;
    return size_of(fake_nvrtc.ptx, size, __func__);
}

int nvrtcGetPTX(program *p, char *ptx)
{
    (void)p;
    return copy_of(fake_nvrtc.ptx, ptx, __func__);
}

#ifndef FAKE_NVRTC_LACKS_WORDS
const char *nvrtcGetErrorString(int code)
{
    static _Thread_local char text[32];
    snprintf(text, sizeof text, "error %d", code);
    return text;
}
#endif
