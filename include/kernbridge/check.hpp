/* Checks and failures for C++. A failure is an exception, which becomes a JAX error; the process is
 * not aborted. Only <exception> is included, since <stdexcept> and <string> cost nvcc 0.3 s. */
#ifndef KERNBRIDGE_CHECK_HPP
#define KERNBRIDGE_CHECK_HPP

#include "kernbridge/dtype.hpp"
#ifdef KB_CHECKED
#include "kernbridge/assertion.hpp"
#endif

#include <exception>
#include <stdio.h>

namespace kernbridge
{

/* A text of at most 511 bytes; longer texts are truncated. */
class Message
{
  public:
    Message() = default;
    KB_HOST_DEVICE Message(const char *file, int line, const char *condition)
    {
#ifdef __CUDA_ARCH__
        printf("%s:%d: check failed: (%s) ", file, line, condition);
#else
        *this << file << ":" << line << ": check failed: (" << condition << ") ";
#endif
    }

    KB_HOST_DEVICE Message &operator<<(const char *text)
    {
        return put("%s", text ? text : "(null)");
    }
    KB_HOST_DEVICE Message &operator<<(char value)
    {
        return value ? put("%c", value) : put("%s", "\\x00");
    }
    KB_HOST_DEVICE Message &operator<<(bool value)
    {
        return put("%s", value ? "true" : "false");
    }
#define KB_MESSAGE_OPERATOR(type, format)                                                          \
    KB_HOST_DEVICE Message &operator<<(type value)                                                 \
    {                                                                                              \
        return put(format, value);                                                                 \
    }
    KB_MESSAGE_OPERATOR(int, "%d")
    KB_MESSAGE_OPERATOR(unsigned, "%u")
    KB_MESSAGE_OPERATOR(long, "%ld")
    KB_MESSAGE_OPERATOR(unsigned long, "%lu")
    KB_MESSAGE_OPERATOR(long long, "%lld")
    KB_MESSAGE_OPERATOR(unsigned long long, "%llu")
    KB_MESSAGE_OPERATOR(double, "%g")
    KB_MESSAGE_OPERATOR(const void *, "%p")
#undef KB_MESSAGE_OPERATOR
    KB_HOST_DEVICE Message &operator<<(DType value)
    {
        return *this << dtype_name(value);
    }

    const char *text() const
    {
        return text_;
    }

  private:
    template <typename T> KB_HOST_DEVICE Message &put(const char *format, T value)
    {
#ifdef __CUDA_ARCH__
        printf(format, value);
#else
        int n = snprintf(text_ + size_, sizeof text_ - size_, format, value);
        size_ += n < 0 ? 0 : static_cast<size_t>(n);
        if (size_ > sizeof text_ - 1)
            cut();
#endif
        return *this;
    }

    /* The text is full, and ends before a character of several bytes, which may be half of one. */
    KB_HOST_DEVICE void cut()
    {
        size_ = sizeof text_ - 1;
        size_t at = size_;
        while (at > size_ - 3 && (text_[at - 1] & 0xC0) == 0x80)
            at--;
        if (text_[at - 1] & 0x80)
            text_[at - 1] = 0;
    }

    char text_[512] = "";
    size_t size_ = 0;
};

/* The exception that a kernel throws. `code` is a kb_status. */
class Error : public std::exception
{
  public:
    explicit Error(const Message &message, int code = KB_INTERNAL) : message_(message), code_(code)
    {
    }
    explicit Error(const char *message, int code = KB_INTERNAL) : code_(code)
    {
        message_ << message;
    }
    const char *what() const noexcept override
    {
        return message_.text();
    }
    int code() const noexcept
    {
        return code_;
    }

  private:
    Message message_;
    int code_;
};

struct CheckError : Error {
    using Error::Error;
};

struct CudaError : Error {
    using Error::Error;
};

namespace detail
{

/* `Fail() & message` throws; on a GPU, where exceptions do not exist, it ends the kernel. */
struct Fail {
    KB_HOST_DEVICE void operator&(const Message &message) const
    {
#ifdef __CUDA_ARCH__
        printf("\n");
        __trap();
#else
        throw CheckError(message, KB_INVALID_ARGUMENT);
#endif
    }
};

#ifndef KB_DERIVATIVE
/* The call that this thread is executing, if it is a call of this module. */
inline const kb_call *&current()
{
    static thread_local const kb_call *call = nullptr;
    return call;
}
#endif

} // namespace detail

#ifdef KB_DERIVATIVE
/* What a derivative is made of: no call is known, and everything runs on one thread. */
extern "C" const kb_call *kb_this_call(void);
inline const kb_call *this_call()
{
    return kb_this_call();
}
inline void *scratch(size_t bytes)
{
    return ::operator new(bytes);
}
template <typename F> void parallel_for(int64_t count, const F &f)
{
    if (count > 0)
        f(static_cast<int64_t>(0), count);
}
#else

/* The call that this thread is executing, for kb_scratch and kb_parallel_for. NULL in the threads
 * of a parallel_for. */
inline const kb_call *this_call()
{
    return detail::current();
}

/* Host memory, valid until the kernel returns, aligned to 64 bytes. Throws if there is none. */
inline void *scratch(size_t bytes)
{
    void *memory = this_call() ? kb_scratch(this_call(), bytes) : nullptr;
    if (!memory && bytes)
        throw Error(Message() << "no scratch memory of " << bytes << " bytes",
                    KB_RESOURCE_EXHAUSTED);
    return memory;
}

/* Calls f(begin, end) for parts of 0..count on XLA's threads and on this one, and returns when all
 * parts are done. If calls of f throw, the first exception is thrown again, as it was. */
template <typename F> void parallel_for(int64_t count, const F &f)
{
    struct Work {
        const F &f;
        int failed;
        std::exception_ptr thrown;

        void fail(const std::exception_ptr &e)
        {
            if (!__atomic_exchange_n(&failed, 1, __ATOMIC_ACQ_REL))
                thrown = e;
        }
    } work = {f, 0, nullptr};
    auto run = [](void *data, int64_t begin, int64_t end) {
        Work *w = static_cast<Work *>(data);
#ifdef KB_CHECKED
        detail::Landing landing;
        if (setjmp(landing.place))
            return w->fail(std::make_exception_ptr(Error(landing.text, KB_INVALID_ARGUMENT)));
#endif
        try {
            w->f(begin, end);
        } catch (...) {
            w->fail(std::current_exception());
        }
    };
    if (this_call())
        kb_parallel_for(this_call(), count, run, &work);
    else
        run(&work, 0, count);
    if (work.failed)
        std::rethrow_exception(work.thrown);
}
#endif

} // namespace kernbridge

/* KB_CHECK(n > 0) << "n is " << n; */
#define KB_CHECK(condition)                                                                        \
    (condition)                                                                                    \
        ? (void)0                                                                                  \
        : ::kernbridge::detail::Fail() & ::kernbridge::Message(__FILE__, __LINE__, #condition)

#ifdef __CUDACC__

namespace kernbridge
{
namespace detail
{

inline void check_cuda(cudaError_t code, const char *file, int line, const char *what)
{
    if (code != cudaSuccess)
        throw CudaError(Message() << file << ":" << line << ": " << what << ": "
                                  << cudaGetErrorName(code) << ", " << cudaGetErrorString(code));
}

/* Waits for what this call launched; not while it is recorded into a graph, which runs later. */
inline cudaError_t wait_for_launches()
{
    cudaStream_t stream = this_call() ? static_cast<cudaStream_t>(this_call()->stream) : nullptr;
    cudaStreamCaptureStatus status = cudaStreamCaptureStatusNone;
    cudaError_t code = cudaStreamIsCapturing(stream, &status);
    if (code != cudaSuccess || status != cudaStreamCaptureStatusNone)
        return code;
    return cudaStreamSynchronize(stream);
}

} // namespace detail
} // namespace kernbridge

#define KB_CUDA_CHECK(expression)                                                                  \
    ::kernbridge::detail::check_cuda((expression), __FILE__, __LINE__, #expression)
#define KB_CHECK_KERNEL_LAUNCH()                                                                   \
    ::kernbridge::detail::check_cuda(cudaGetLastError(), __FILE__, __LINE__, "kernel launch")
#define KB_CHECK_KERNEL_LAUNCH_SYNC()                                                              \
    do {                                                                                           \
        KB_CHECK_KERNEL_LAUNCH();                                                                  \
        ::kernbridge::detail::check_cuda(::kernbridge::detail::wait_for_launches(), __FILE__,      \
                                         __LINE__, "kernel");                                      \
    } while (0)
#endif

#endif
