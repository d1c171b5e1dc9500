/* Owns the handler of calls that have no kernel. */
#include "core/kb_absent.h"

#include "core/kb_attrs.h"
#include "core/kb_frame.h"
#include "core/kb_handler.h"

static KB_COLD kb_status execute(const kb_xla_frame *frame, kb_error *err)
{
    if (!kb_frame_is_whole(frame))
        return kb_frame_refuse(frame, "a call without a kernel", err);
    const kb_xla_bytes *message = KB_ATTRS_FIND(&frame->attrs, "message", KB_XLA_ATTR_STRING);
    if (!message)
        return kb_error_set(err, KB_INVALID_ARGUMENT,
                            "a kernbridge call that has no kernel on this platform, and no "
                            "message: the program is damaged");
    size_t size = message->size < KB_ERROR_CAPACITY ? message->size : KB_ERROR_CAPACITY;
    return kb_error_set(err, KB_UNIMPLEMENTED, "%.*s", (int)size, message->data);
}

kb_xla_error *kb_absent_execute(kb_xla_frame *frame)
{
    return kb_handler_handle(frame, 0, execute);
}
