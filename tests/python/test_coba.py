"""The network of examples/coba.py as Numba-CUDA kernels has the spikes of the NumPy reference."""

import coba
import pytest
from rich.progress import Progress

pytestmark = pytest.mark.once


def test_the_cuda_kernels_have_the_spikes_of_the_reference():
    pytest.importorskip("numba_cuda")
    p = coba.Params(neurons=300)
    net = coba.build_network(p, 1)
    with Progress(disable=True) as bar:
        run = coba.simulate(coba.kernel_model(p, net, cuda=True), net.start, 300, 100, bar, "")
        spikes, final = coba.reference(p, net, 300, bar)
    assert spikes.size > 50
    assert not coba.check_exact(run, spikes, final, p.neurons)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--neurons", "20"], "--neurons is 20, expected 50 to 10000"),
        (["--neurons", "400000", "--no-compare"], "--synapses is 8000, expected 1 to 1000"),
        (["--neurons", "100", "--synapses", "0"], "--synapses is 0, expected 1 to 100"),
    ],
)
def test_sizes_that_are_refused(arguments, message, capsys):
    with pytest.raises(SystemExit):
        coba.parse(arguments)
    assert message in capsys.readouterr().err
