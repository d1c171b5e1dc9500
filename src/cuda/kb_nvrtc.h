/* NVIDIA's run-time compiler, which Python calls, leaves the signals of the process alone. */
#ifndef KB_NVRTC_H
#define KB_NVRTC_H

/* From now on, calls of `signal` by the library with this address change nothing; with NULL, those
 * by every library that is loaded and whose file is called libnvrtc. Up to 13.0, NVRTC takes SIGINT
 * and SIGTERM while it compiles for the first time, and its handler ends the process with the
 * status 4, without a word, in whichever thread the signal arrives. */
void kb_nvrtc_keep_signals(const void *inside);

#endif
