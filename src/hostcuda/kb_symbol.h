/* A function that machine code of this process may call by its name. */
#ifndef KB_SYMBOL_H
#define KB_SYMBOL_H

/* Tables of them end with a name that is NULL. */
typedef struct kb_hostcuda_symbol {
    const char *name;
    void (*address)(void);
} kb_hostcuda_symbol;

#endif
