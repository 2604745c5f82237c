"""Notes of the page: how to read it, its assumptions, and why rows are missed."""

INTRODUCTION = """\
Each published split is priced, or played, as it was run; nothing is planned. *Shipped* is what the
cost model says with the parameters that ship, *calibrated* with four parameters fitted to half of
the rows. Which half was written down before any prediction existed: of each four rows in the order
of their publications the first and the last calibrate, so that each half has synchronous and
asynchronous rows. The other half stays untouched. The fit minimises squared logarithms of
predicted over published. What ships does not follow from it by itself; see below."""

COLUMNS = """\
Step times of runs in turn and of NeMo-RL are the cost model's; gains and verl's separated runs are
the simulator's, with log-normal lengths, for only there partial batches and weights that interrupt
exist. *Played* is the error of the simulator with the calibrated parameters, where the cost model
makes the prediction."""

SUGGESTED = """\
- `compute_efficiency`: the shipped value stands. From 0.40 to 0.45, the others fitted again, the
  sum of squares changes by about a hundredth.
- `memory_efficiency` and `engine_step_seconds`: decoding takes longer than the shipped roofline
  says, but these two trade off against each other, and with both as fitted Llama-3.1-8B, of which
  no row calibrates, comes out too slow where the shipped ones are right (rows 15 and 19). So a
  better number is not what is missing; the shape is. The time beside the roofline grows with layers
  and tensor ranks (launches, all-reduces), and work in turn has seconds that nothing hides.
- `weights_link_share`: the cost model sends weights at line rate. No published engine comes near:
  a third of it would be the better default."""

MISSES = """\
## Why rows are missed

- **1-2, shipped.** With generation as quick as the shipped roofline has it, a synchronous step is
  mostly training, and overlapping gains little. Calibrated, both come close, the untouched one
  too; but the gain depends on the unpublished mean response (table below).
- **5-11.** The publication is not consistent with one workload: its `update_actor` takes 8,634,
  8,538 and 14,568 GPU-seconds on 32, 64 and 128 GPUs in turn, but 5,021, 5,023 and 7,242 with as
  many GPUs on two sides; its generation takes 357, 151 and 178 s. Responses grew differently in
  each run, and in turn everything is offloaded and fetched back. We infer one length from the
  first row, which makes the separated runs (6, 8) too slow by as much as the published times of the
  same work differ, and cannot follow generation from 64 to 128 GPUs (7, 9, 11).
- **12, 13.** As soon as a quarter of a batch may wait, our trainer never does. The published one
  still waits 58 s at staleness 0.1 and 33 s at 0.5: its replicas' shares of long responses differ,
  which our trainer, a single clock, does not show.
- **14, 16, 18, 20, shipped.** Much too quick in turn, and close one step off on the same GPUs (15,
  17, 19, 21). The publication does not divide its steps. What the cost model has no term for, and
  what only work in turn cannot hide, is the time between phases: the engine wakes, the trainer's
  state moves to host memory and back, responses are decoded and rewarded.
- **14, 15, 18, 19, calibrated.** Too slow: the fit has only decoding to lay those seconds on, and
  what fits Qwen3-32B's 64 layers on four GPUs is too much for 32 layers on one. One step off, the
  staleness rule besides keeps the engines at a fraction of what they hold, which NeMo-RL does not.
- **22-25, shipped.** GB200s are further off than H100s: with three times the peaks, whatever is no
  peak weighs more, and 45 % of 2,500 TFLOPS is a lot to ask of sequences of 1,000 tokens.
- **26-29.** Bytes over line rate are a bound, not an estimate: parameters are gathered, packed into
  buckets, sent, unpacked and loaded. H100s reach a sixth of one card's 400 Gbit/s, the H20 runs
  more than a quarter, if theirs is such a card. One share does not fit both."""

REFUSED = """\
Most are refused for the logits of one longest response, of which our trainer keeps 20 bytes a token
and entry and others keep chunks; the last three for a reference in fp32 beside the trainer, which
others keep in bf16 and in host memory. A planner that is asked for such a run says that it cannot,
rightly for what this release runs."""

SOURCES = """\
## Sources

- AReaL: `blog/AReaL_v0_3.md` and `benchmark/verl_312a8cb/build_cmd.py` of inclusionAI/AReaL.
- verl: `docs/advance/fully_async.md`, `verl/checkpoint_engine/README.md` and the scripts in
  `verl/experimental/fully_async_policy/shell` of verl-project/verl.
- NeMo-RL: `docs/about/performance-summary.md` as of v0.4 and v0.5, and the recipes in
  `examples/configs/recipes/llm/performance`, of NVIDIA-NeMo/RL."""

LEFT_OUT = """\
## Published, and left out

- AReaL's hours themselves: the mean response is not published, and a step of 8,192 responses longer
  than some thousand tokens would need more than the peak of a quarter of its GPUs, so a *PPO step*
  may be a minibatch. Its accuracies by η are not times.
- Mixtures of experts (NeMo-RL's DeepSeek-V3, Qwen3-235B and 30B-A3B, verl's 30B and dynamic
  scheduling): the cost model knows dense models only. NeMo-RL's FP8 rows: it knows bf16 only.
- verl one step off: batch, responses a prompt and mean length are not stated, the number of GPUs in
  two ways, and the scripts that are kept are for another length.
- verl's `require_batches` ablation, of which its authors say that it changes the lengths; its runs
  with tools, whose time is not stated; 15 GB of weights in 0.02 s, which no link there can carry.
- StreamRL, RLBoost, Weave, RollArt, Laminar, AsyncFlow, RLinf: ratios to a system, without the
  workloads and splits behind them. HexiScale's MFU: without batch and length.
- Of A100, L40S and L4 fleets no step times are public but HetRL's, which have their own page."""


def assumed(lengths: tuple[int, int], fewer_sequences_seconds: float) -> str:
    """Say what was assumed, with verl's inferred lengths and its first row at 256 sequences."""
    return f"""\
## What is assumed

- **All**: optimizer states divided among replicas; engines take up to 1,024 sequences, vLLM's and
  verl's default on such GPUs, where the cache holds them (with the shipped cost model's 256, row 5
  would be {fewer_sequences_seconds:.0f} s); one response in a hundred is cut; memory is enough, for
  these runs did run. Peaks are the catalogue's.
- **AReaL** (its v0.3 blog; split and batch from its benchmark's script): 512 prompts of 512 tokens
  with 16 responses, four minibatches, η = 4, three GPUs of four generate, trainers in 2 and 4
  stages; synchronously half of the GPUs generate, as v0.2's configurations are reported to have it.
  Responses of 9,216 tokens on average, a third of the limit; nodes with 8 cards of 400 Gbit/s.
  After new weights, caches are computed again. Rows 3 and 4 measure generation: their trainer keeps
  up. With the trainer of that split, which holds our generation back, they were 1.00 at first.
- **verl** (its page on fully asynchronous training and the scripts beside it): tensor-parallel 4
  engines, data-parallel training with all activations recomputed, 16 minibatches; sharding inside a
  machine is not priced, only gradients between machines. Prompts of 150 tokens. The mean response
  is that with which training takes row 5's published time: {lengths[0]:,} tokens, and
  {lengths[1]:,} calibrated. A staleness of `s` is η = 1 with room for `s` of a batch in the queue,
  at least for the quarter that is trained on together, which streams. H20 machines with one card of
  400 Gbit/s.
- **NeMo-RL** (its performance summary and recipes): prompts are what the published rate counts
  beyond the average length, 102 to 133 tokens; a reference scores, as its default loss needs;
  Llama recomputes activations, Qwen3 does not. GB200: data-sheet figures, one NVLink domain.
- **Weights**: two bytes a parameter over one card of 400 Gbit/s."""
