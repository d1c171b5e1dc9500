/* Bundles for tests: texts of manifests with right digests, and folders of files. One thread. */
#ifndef BUNDLE_H
#define BUNDLE_H

#include <stddef.h>
#include <stdint.h>

enum { BUNDLE_PATH = 256, BUNDLE_TEXT = 4096 };

/* Data of BUNDLE_DATA bytes, and one program with it. */
enum { BUNDLE_DATA = 128, BUNDLE_CODE = 18 };

extern const char bundle_code[BUNDLE_CODE + 1];

/* The lines of a good manifest, without the last. */
extern const char *const bundle_lines[];

/* Writes the text of a manifest from lines, of which the last is NULL, and its end; returns its
 * size, at most BUNDLE_TEXT. "%D" and "%P" stand for size and digest of the data and of the
 * program. */
size_t bundle_text(const char *const *lines, char *text);

/* Puts the digest of what comes before it into the last line, if that is one of an end. */
void bundle_sign(char *text, size_t size);

/* A new folder with the files of a bundle whose manifest is `text`. */
void bundle_make(char folder[BUNDLE_PATH], const char *text, size_t size);

/* Writes a file of the folder anew. */
void bundle_put(const char *folder, const char *name, const void *bytes, size_t size);

/* Removes one file; the files and the folder. */
void bundle_drop(const char *folder, const char *name);
void bundle_remove(const char *folder);

#endif
