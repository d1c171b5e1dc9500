/* A tensor of a call, for C++. */
#ifndef KERNBRIDGE_TENSOR_HPP
#define KERNBRIDGE_TENSOR_HPP

#include "kernbridge/check.hpp"
#ifdef KB_CHECKED
#include "kernbridge/checked.hpp"
#endif

namespace kernbridge
{

/* A row-major, compact array that belongs to XLA. It is passed by value, also to GPU kernels, where
 * shape() and stride() work for the first 8 axes. `const` applies to the object, not the elements.
 */
class Tensor
{
  public:
    enum { kMaxDim = 8 }; /* axes that a GPU kernel can see; on the host there is no limit */

    /* `name` is the tensor's name in messages. */
    explicit Tensor(const kb_tensor &t, const char *name = "")
        : data_(t.data), size_(t.size), more_shape_(t.shape), more_strides_(t.strides),
          ndim_(t.ndim), type_(static_cast<DType>(t.type))
    {
        for (int i = 0; i < t.ndim && i < kMaxDim; i++) {
            shape_[i] = t.shape[i];
            strides_[i] = t.strides[i];
        }
#ifdef KB_CHECKED
        name_ = name;
#else
        (void)name;
#endif
    }

    KB_HOST_DEVICE void *data_ptr() const
    {
        return data_;
    }
    KB_HOST_DEVICE void *data() const
    {
        return data_;
    }

    /* A pointer to the elements. Throws if T is not their type; to read their bits as another type,
     * cast data_ptr(). In a module that is built with check=True, its indices are checked. */
#ifdef KB_CHECKED
    template <typename T>
    Pointer<T> data_ptr(const char *file = __builtin_FILE(), int line = __builtin_LINE()) const
    {
        check_type<T>();
        return Pointer<T>(static_cast<T *>(data_), size_, name_, file, line);
    }
#else
    template <typename T> KB_HOST_DEVICE T *data_ptr() const
    {
        check_type<T>();
        return static_cast<T *>(data_);
    }
#endif

    KB_HOST_DEVICE int ndim() const
    {
        return ndim_;
    }

    /* The extent of axis i; negative i count from the end. Throws if there is no such axis. */
    KB_HOST_DEVICE int64_t shape(int i) const
    {
        i = axis(i);
        return i < kMaxDim ? shape_[i] : more_shape_[i];
    }
    KB_HOST_DEVICE int64_t size(int i) const
    {
        return shape(i);
    }

    /* The number of elements between neighbouring indices of axis i. */
    KB_HOST_DEVICE int64_t stride(int i) const
    {
        i = axis(i);
        return i < kMaxDim ? strides_[i] : more_strides_[i];
    }
    const int64_t *shape_ptr() const
    {
        return more_shape_;
    }
    const int64_t *strides_ptr() const
    {
        return more_strides_;
    }

    KB_HOST_DEVICE DType dtype() const
    {
        return type_;
    }
    KB_HOST_DEVICE size_t element_size() const
    {
        return dtype_size(type_);
    }

    /* The number of elements; 1 if there are no axes. */
    KB_HOST_DEVICE int64_t numel() const
    {
        return size_;
    }
    KB_HOST_DEVICE size_t nbytes() const
    {
        return static_cast<size_t>(size_) * element_size();
    }

    /* The number of elements as an int. Throws if it is too large for one. */
    int numel_checked_int() const
    {
        if (size_ > 0x7fffffff)
            throw Error(Message() << "a tensor of " << size_ << " elements, more than an int holds",
                        KB_INVALID_ARGUMENT);
        return static_cast<int>(size_);
    }
    KB_HOST_DEVICE bool is_contiguous() const
    {
        return true;
    }

  private:
    template <typename T> KB_HOST_DEVICE void check_type() const
    {
        enum { asked = detail::type_of<T>::number };
#ifndef __CUDA_ARCH__
        if (static_cast<int>(asked) >= 0 && !detail::reads_as(static_cast<int32_t>(type_), asked))
            throw Error(Message() << "data_ptr<" << static_cast<DType>(asked) << "> of a tensor of "
                                  << type_,
                        KB_INVALID_ARGUMENT);
#endif
    }

    KB_HOST_DEVICE int axis(int i) const
    {
        int wanted = i < 0 ? i + ndim_ : i;
#ifdef __CUDA_ARCH__
        if (wanted < 0 || wanted >= ndim_ || wanted >= kMaxDim)
            __trap();
#else
        if (wanted < 0 || wanted >= ndim_)
            throw Error(Message() << "axis " << i << " of a tensor of " << ndim_ << " axes",
                        KB_INVALID_ARGUMENT);
#endif
        return wanted;
    }

    void *data_;
    int64_t size_;
    const int64_t *more_shape_; /* of the host */
    const int64_t *more_strides_;
    int32_t ndim_;
    DType type_;
    int64_t shape_[kMaxDim];
    int64_t strides_[kMaxDim];
#ifdef KB_CHECKED
    const char *name_ = "";
#endif
};

} // namespace kernbridge

#endif
