/* Proves that no object file, whatever it says, makes the loader leave its memory. Bytes are read
 * as changes to a good object, to the tables that the loader reads and to any byte. What was placed
 * is not run: the instructions may be anything. */
#include "fuzz.h"

#include "object.h"
#include "object/kb_object.h"

#include <elf.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const char fuzz_name[] = "fuzz_object";

static struct {
    long loaded, refused[17];
} counts;

/* Overwrites a field of 2, 4 or 8 bytes. */
static void put(uint8_t *bytes, size_t size, size_t at, reader *r)
{
    static const size_t widths[] = {2, 4, 8};
    size_t width = widths[byte(r) % 3];
    int64_t value = number(r);
    if (at <= size && width <= size - at)
        memcpy(bytes + at, &value, width);
}

static void change(uint8_t *bytes, size_t size, reader *r)
{
    Elf64_Ehdr header;
    Elf64_Shdr s;
    memcpy(&header, bytes, sizeof header);
    size_t at = ((size_t)byte(r) << 8 | byte(r)) % size, n = header.e_shnum ? header.e_shnum : 1;
    switch (byte(r) % 8) {
    case 0:
        bytes[at] = byte(r);
        break;
    case 1:
        put(bytes, size, at % sizeof header, r);
        break;
    case 2:
    case 3: /* a field of a section */
        put(bytes, size, header.e_shoff + byte(r) % n * sizeof s + byte(r) % sizeof s, r);
        break;
    default: /* what a section holds: symbols, relocations */
        at = header.e_shoff + byte(r) % n * sizeof s;
        if (at > size || size - at < sizeof s)
            break;
        memcpy(&s, bytes + at, sizeof s);
        put(bytes, size, s.sh_offset + (s.sh_size ? (size_t)byte(r) * 4 % s.sh_size : 0), r);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t data_size)
{
    reader r = {.at = data, .end = data + data_size};
    size_t size;
    const uint8_t *good = object_bytes(&size);
    uint8_t *bytes = malloc(size);
    require(bytes != NULL, "no memory");
    memcpy(bytes, good, size);
    for (int n = byte(&r) % 4; n > 0; n--)
        change(bytes, size, &r);
    kb_error err;
    kb_object *object = NULL;
    kb_status status = kb_object_load(bytes, size, "k", object_resolve, &object, &err);
    require((status == KB_OK) == (object != NULL), "an object without success");
    if (object) {
        counts.loaded++;
        require(kb_object_size(object) > 0, "an object without memory");
        (void)kb_object_find(object, "sample_sum");
    } else {
        counts.refused[status]++;
        require(strncmp(err.message, "k: ", 3) == 0, "an error that does not name the kernel");
    }
    kb_object_free(object);
    free(bytes);
    return 0;
}

bool fuzz_tell(uint64_t n)
{
    printf("fuzz_object: %llu inputs: %ld loaded, %ld damaged, %ld unsupported, %ld for another "
           "processor, %ld with a missing symbol\n",
           (unsigned long long)n, counts.loaded, counts.refused[KB_INVALID_ARGUMENT],
           counts.refused[KB_UNIMPLEMENTED], counts.refused[KB_FAILED_PRECONDITION],
           counts.refused[KB_NOT_FOUND]);
    return counts.loaded && counts.refused[KB_INVALID_ARGUMENT] &&
           counts.refused[KB_UNIMPLEMENTED] && counts.refused[KB_FAILED_PRECONDITION] &&
           counts.refused[KB_NOT_FOUND];
}
