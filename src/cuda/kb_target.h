/* The handlers of GPU calls: targets `kernbridge.cuda`, and `kernbridge.cuda.graph`, which XLA may
 * record into a CUDA graph. Beside the attributes of core/kb_handler.h a call carries
 *
 * - program, array of uint8: see kb_program.h; read when this process does not know the digest
 *
 * A call of `kernbridge.cuda.carrier` has this attribute for calls of that kernel, and runs
 * nothing.
 *
 * Any thread may enter, without Python. */
#ifndef KB_TARGET_H
#define KB_TARGET_H

#include "abi/kb_xla.h"
#include "core/kb_error.h"
#include "core/kb_frame.h"
#include "core/kb_handler.h"
#include "core/kb_kernel.h"
#include "cuda/kb_driver.h"

#include <stdbool.h>

/* Reads and registers a program, unless its digest is there. It may call Python if `local` is not
 * NULL. */
kb_handler_loader kb_target_register;

/* Instantiate also loads the kernel for every GPU that XLA has opened. XLA has a stage for that,
 * initialize, which it runs at each execution, also of a graph: 0.26 us a call on an H200. */
kb_xla_error *kb_target_instantiate(kb_xla_frame *frame);
kb_xla_error *kb_target_execute(kb_xla_frame *frame);

kb_xla_error *kb_target_graph_instantiate(kb_xla_frame *frame);
kb_xla_error *kb_target_graph_execute(kb_xla_frame *frame);

/* Of a call that carries a kernel: XLA runs this stage of all calls of a program before it executes
 * any of them, or records any into a graph. */
kb_xla_error *kb_target_carrier_prepare(kb_xla_frame *frame);

/* What the stages of any device share. */

/* Whether every function that the kernel launches is loaded for the device. */
bool kb_target_is_prepared(const kb_kernel *kernel, kb_cu_device device);

/* Loads them for the frame's device, with the frame's driver. */
kb_status kb_target_prepare_steps(const kb_frame *frame, kb_error *err);

/* Of calls that were captured while KB_DEBUG_COUNT_NODES was on: how many, and the kernel nodes
 * that they added. */
extern _Atomic(long) kb_target_captured_calls, kb_target_captured_nodes;

#endif
