/* Places in CUDA C++ that is checked: numbers for them, and their text. Any thread may enter. */
#ifndef KB_SITES_H
#define KB_SITES_H

#include <stdint.h>

/* A number from 1 on for a line, or for the code before this address; 0 if there are too many. */
uint32_t kb_site_of_line(const char *file, uint32_t line);
uint32_t kb_site_of_code(const void *code);

enum { KB_SITE_TEXT = 384 };

/* "file:line", with a tab and the line's text after it if the file can be read; or "". */
const char *kb_site_text(uint32_t site, char text[KB_SITE_TEXT]);

#endif
