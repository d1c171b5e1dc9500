// An event-driven simulation: each event excites a neuron, which fires once and sends events on
// along its axons. The time of the first spike is the shortest path.
#include <functional>
#include <queue>
#include <vector>
#include <brainevent/common.h>

struct Event {
    float time;
    int32_t neuron;
    bool operator>(const Event& other) const { return time > other.time; }
};

using Queue = std::priority_queue<Event, std::vector<Event>, std::greater<Event>>;

// @BE first_spikes args args args args rets rets attrs.horizon attr.leak:float32
void first_spikes(const BE::Tensor indptr, const BE::Tensor indices, const BE::Tensor delays,
                  const BE::Tensor stimulus, BE::Tensor times, BE::Tensor order,
                  float horizon, float leak)
{
    int n = times.numel_checked_int();
    float* first = times.data_ptr<float>();
    int32_t* rank = order.data_ptr<int32_t>();
    std::fill(first, first + n, -1.f);
    std::fill(rank, rank + n, -1);

    Queue queue;
    for (int i = 0; i < n; ++i)
        if (stimulus.data_ptr<float>()[i] >= 0)
            queue.push({stimulus.data_ptr<float>()[i], i});

    BE_DISPATCH_SIGNED_INDEX_PAIR(indptr.dtype(), indices.dtype(), offset_t, index_t, {
        auto* begin = indptr.data_ptr<offset_t>();
        auto* target = indices.data_ptr<index_t>();
        int fired = 0;
        while (!queue.empty()) {
            Event e = queue.top();
            queue.pop();
            if (e.time > horizon)
                break;
            if (first[e.neuron] >= 0)
                continue;
            first[e.neuron] = e.time;
            rank[e.neuron] = fired++;
            for (offset_t k = begin[e.neuron]; k < begin[e.neuron + 1]; ++k)
                queue.push({e.time + delays.data_ptr<float>()[k] * leak, int32_t(target[k])});
        }
    });
}
