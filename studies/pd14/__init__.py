"""The parts of studies/microcircuit.py: the cortical microcircuit of Potjans and Diesmann (2014).

parameters   the model, and what follows from its numbers
philox       the counter-based random numbers
draws        tables by which random words become delays, weights and numbers of Poisson spikes
network      the synapses, drawn and laid out for both plans
neuron       the step of a neuron, its drive, and words of spikes
state        the arrays that steps work on
on_device    the device functions that the kernels of both plans are made of
graph        the plan of one launch a step
persistent   the plan of one launch for many steps
reference    the same network as a plain loop on one CPU core
run          a plan at work: states, devices, recording
measures     rates, CV and correlations of spikes, without anything of JAX
figure       the raster and the measures, drawn
"""
