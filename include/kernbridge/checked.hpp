/* Checked pointers, which replace pointers to a tensor's elements in modules that are built with
 * check=True. Included by tensor.hpp if KB_CHECKED is defined; not used for GPUs. */
#ifndef KERNBRIDGE_CHECKED_HPP
#define KERNBRIDGE_CHECKED_HPP

#include "kernbridge/check.hpp"

#include <iterator>

namespace kernbridge
{

/* A pointer into a tensor that knows the number of elements. It converts to a plain pointer, which
 * is no longer checked. */
template <typename T> class Pointer
{
  public:
    using iterator_category = std::random_access_iterator_tag;
    using value_type = T;
    using difference_type = ptrdiff_t;
    using pointer = T *;
    using reference = T &;

    Pointer() = default;
    Pointer(T *begin, int64_t size, const char *name, const char *file, int line)
        : at_(begin), begin_(begin), size_(size), name_(name), file_(file), line_(line)
    {
    }

    operator T *() const
    {
        return at_;
    }
    template <typename I> T &operator[](I i) const
    {
        return at_[checked(static_cast<int64_t>(i))];
    }
    T &operator*() const
    {
        return at_[checked(0)];
    }
    T *operator->() const
    {
        return &at_[checked(0)];
    }
#define KB_POINTER_OPERATOR(op)                                                                    \
    template <typename I> Pointer operator op(I n) const                                           \
    {                                                                                              \
        return moved(op static_cast<int64_t>(n));                                                  \
    }                                                                                              \
    template <typename I> Pointer &operator op##=(I n)                                             \
    {                                                                                              \
        return *this = *this op n;                                                                 \
    }                                                                                              \
    Pointer &operator op##op()                                                                     \
    {                                                                                              \
        return *this = *this op 1;                                                                 \
    }                                                                                              \
    Pointer operator op##op(int)                                                                   \
    {                                                                                              \
        Pointer before = *this;                                                                    \
        *this = *this op 1;                                                                        \
        return before;                                                                             \
    }
    KB_POINTER_OPERATOR(+)
    KB_POINTER_OPERATOR(-)
#undef KB_POINTER_OPERATOR
    ptrdiff_t operator-(const Pointer &other) const
    {
        return at_ - other.at_;
    }

  private:
    Pointer moved(int64_t n) const
    {
        Pointer result = *this;
        result.at_ = at_ + n;
        return result;
    }

    int64_t checked(int64_t i) const
    {
        int64_t index = at_ - begin_ + i;
        if (index < 0 || index >= size_)
            throw Error(Message() << "element " << index << " is out of bounds for the tensor '"
                                  << name_ << "' of " << size_ << " elements (data_ptr at " << file_
                                  << ":" << line_ << ")",
                        KB_INVALID_ARGUMENT);
        return i;
    }

    T *at_ = nullptr;
    T *begin_ = nullptr;
    int64_t size_ = 0;
    const char *name_ = "";
    const char *file_ = "";
    int line_ = 0;
};

} // namespace kernbridge

#endif
