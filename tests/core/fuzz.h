/* What the fuzzers share: how they read their input, and the driver of those that run without
 * libFuzzer. One thread. */
#ifndef FUZZ_H
#define FUZZ_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* A fuzzer has these. The last tells what `n` inputs came to, and whether all kinds were met. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
extern const char fuzz_name[];
bool fuzz_tell(uint64_t n);

/* Ends the program if something does not hold. */
void require(bool ok, const char *what);

/* The input, zeros behind its end. */
typedef struct reader {
    const uint8_t *at, *end;
} reader;

uint8_t byte(reader *r);

/* Small numbers, limits, and now and then anything. */
int64_t number(reader *r);

#endif
