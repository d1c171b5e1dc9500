/* What threads change lies this far from what others read, so that it does not slow them down. */
#ifndef KB_CACHE_LINE_H
#define KB_CACHE_LINE_H

enum { KB_CACHE_LINE = 64 }; /* bytes */

#endif
