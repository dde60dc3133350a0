//! The Python face: checks what comes in, turns it into slices, lets other Python threads run during a pass.

use crate::noise::Noise;
use crate::options::Options;
use crate::sampler::Sampler;
use pyo3::buffer::{ElementType, PyUntypedBuffer};
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::PyMemoryView;
use std::collections::HashMap;

/// Rows from this length on are read without the GIL; below, handing it over costs more than the pass.
const DETACH_FROM: usize = 4096;

/// One sampled token.
#[pyclass(name = "Sampled", module = "atelico._native", frozen, get_all)]
pub struct PySampled {
    /// The token id.
    token: u32,
    /// Gap to the runner-up in logits, inf without one.
    margin: f64,
    /// Log-probability of the token in the raw row, or None when none was asked for.
    logprob: Option<f64>,
    /// The best (token, log-probability) pairs of the raw row, best first.
    top: Vec<(u32, f64)>,
}

#[pymethods]
impl PySampled {
    fn __repr__(&self) -> String {
        let logprob = self.logprob.map_or("None".into(), |value| format!("{value:.4}"));
        format!(
            "Sampled(token={}, margin={:.4}, logprob={logprob}, top=<{} pairs>)",
            self.token,
            self.margin,
            self.top.len()
        )
    }
}

/// Samples tokens from logits rows, for one request. See the type stub for the semantics.
#[pyclass(name = "Sampler", module = "atelico._native")]
pub struct PySampler(Sampler);

#[pymethods]
impl PySampler {
    #[new]
    #[pyo3(signature = (
        n_vocab, *, temperature = 1.0, top_k = 0, top_p = 1.0, min_p = 0.0, repetition_penalty = 1.0,
        frequency_penalty = 0.0, presence_penalty = 0.0, logit_bias = None, seed = None
    ))]
    #[allow(clippy::too_many_arguments)] // keyword arguments on the Python side
    fn new(
        n_vocab: i64,
        temperature: f64,
        top_k: i64,
        top_p: f64,
        min_p: f64,
        repetition_penalty: f64,
        frequency_penalty: f64,
        presence_penalty: f64,
        logit_bias: Option<HashMap<i64, f64>>,
        seed: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<Self> {
        if !(1..=i64::from(i32::MAX)).contains(&n_vocab) {
            return Err(PyValueError::new_err(format!("n_vocab must be between 1 and 2^31 - 1, not {n_vocab}")));
        }
        let n_vocab = n_vocab as usize;
        let options = Options {
            temperature,
            top_k: usize::try_from(top_k).unwrap_or(0),
            top_p,
            min_p,
            repetition_penalty,
            frequency_penalty,
            presence_penalty,
        };
        options.check().map_err(PyValueError::new_err)?;
        let mut biases = Vec::new();
        for (token, bias) in logit_bias.unwrap_or_default() {
            let token = token_id("logit_bias", token, n_vocab)?;
            // -inf bans a token; +inf and NaN mean nothing.
            if bias.is_nan() || bias > f64::from(f32::MAX) {
                return Err(PyValueError::new_err(format!("logit_bias[{token}] must be a number, not {bias}")));
            }
            biases.push((token, bias));
        }
        biases.sort_unstable_by_key(|&(token, _)| token); // a HashMap's order is random; memory layout should not be
        let seed = seed.map_or(Ok(0), seed_bits)?;
        Ok(Self(Sampler::new(n_vocab, options, &biases, seed)))
    }

    /// Counts prompt tokens, for the repetition penalty only.
    fn prime(&mut self, tokens: Vec<i64>) -> PyResult<()> {
        let n_vocab = self.0.n_vocab();
        let tokens: Vec<u32> =
            tokens.into_iter().map(|token| token_id("tokens", token, n_vocab)).collect::<PyResult<_>>()?;
        self.0.prime(&tokens);
        Ok(())
    }

    /// Counts a committed output token, for all three penalties.
    fn accept(&mut self, token: i64) -> PyResult<()> {
        self.0.accept(token_id("token", token, self.0.n_vocab())?);
        Ok(())
    }

    /// Samples one token from a row of logits.
    #[pyo3(signature = (row, mask = None, *, position, n_logprobs = None))]
    fn sample(
        &mut self,
        py: Python<'_>,
        row: &Bound<'_, PyAny>,
        mask: Option<&Bound<'_, PyAny>>,
        position: &Bound<'_, PyAny>,
        n_logprobs: Option<i64>,
    ) -> PyResult<PySampled> {
        let n_vocab = self.0.n_vocab();
        let position = position_of(position)?;
        let n_logprobs = n_logprobs
            .map(|n| {
                usize::try_from(n)
                    .map_err(|_| PyValueError::new_err(format!("n_logprobs must not be negative, but is {n}")))
            })
            .transpose()?;
        let (row, mask) = row_and_mask(row, mask, n_vocab)?;
        // SAFETY: `checked_buffer` has checked element type, alignment, length and contiguity, any bits are a valid f32
        // or u32, and the buffers outlive the slices. The caller does not write to them during the call.
        let (row, mask) = unsafe { (slice_of::<f32>(&row), mask.as_ref().map(|mask| slice_of::<u32>(mask))) };
        let sampled = if n_vocab >= DETACH_FROM {
            py.detach(|| self.0.sample(row, mask, position, n_logprobs))
        } else {
            self.0.sample(row, mask, position, n_logprobs)
        };
        let sampled = sampled.ok_or_else(no_token)?;
        let (logprob, top) = sampled.logprobs.map_or((None, Vec::new()), |(logprob, top)| (Some(logprob), top));
        Ok(PySampled { token: sampled.choice.token, margin: sampled.choice.margin, logprob, top })
    }

    /// Writes the distribution that `sample` draws from into `out`.
    #[pyo3(signature = (row, mask = None, *, out))]
    fn probabilities(
        &mut self,
        py: Python<'_>,
        row: &Bound<'_, PyAny>,
        mask: Option<&Bound<'_, PyAny>>,
        out: &Bound<'_, PyAny>,
    ) -> PyResult<()> {
        let n_vocab = self.0.n_vocab();
        let (row, mask) = row_and_mask(row, mask, n_vocab)?;
        let out = checked_buffer("out", "float64", out, |kind| kind == ElementType::Float { bytes: 8 }, n_vocab)?;
        if out.readonly() {
            return Err(PyValueError::new_err("out must be writable"));
        }
        // SAFETY: as in `sample`; `out` is writable, and nobody else reads or writes it during the call.
        let (row, mask, out) = unsafe {
            let shares = std::slice::from_raw_parts_mut(out.buf_ptr().cast::<f64>(), out.item_count());
            (slice_of::<f32>(&row), mask.as_ref().map(|mask| slice_of::<u32>(mask)), shares)
        };
        let found = if n_vocab >= DETACH_FROM {
            py.detach(|| self.0.probabilities(row, mask, out))
        } else {
            self.0.probabilities(row, mask, out)
        };
        found.ok_or_else(no_token)
    }

    /// A uniform number for a decision at this position that is not the draw itself.
    #[pyo3(signature = (position, purpose))]
    fn uniform(&self, position: &Bound<'_, PyAny>, purpose: u64) -> PyResult<f64> {
        Ok(self.0.uniform(position_of(position)?, purpose))
    }
}

/// The noise that a sampler of this seed adds to each token at this position: standard Gumbel, before it is scaled by the
/// temperature.
#[pyfunction]
pub fn gumbel(seed: &Bound<'_, PyAny>, position: &Bound<'_, PyAny>, tokens: Vec<u32>) -> PyResult<Vec<f64>> {
    let noise = Noise::new(seed_bits(seed)?, position_of(position)?);
    Ok(tokens.into_iter().map(|token| noise.gumbel(token)).collect())
}

fn no_token() -> PyErr {
    PyValueError::new_err("no token can be sampled: every logit is masked, banned, NaN or -inf")
}

/// The buffers of a row of logits and of its mask.
fn row_and_mask(
    row: &Bound<'_, PyAny>,
    mask: Option<&Bound<'_, PyAny>>,
    n_vocab: usize,
) -> PyResult<(PyUntypedBuffer, Option<PyUntypedBuffer>)> {
    let float32 = |kind| kind == ElementType::Float { bytes: 4 };
    let word32 =
        |kind| matches!(kind, ElementType::SignedInteger { bytes: 4 } | ElementType::UnsignedInteger { bytes: 4 });
    let row = checked_buffer("row", "float32", row, float32, n_vocab)?;
    let mask =
        mask.map(|mask| checked_buffer("mask", "int32 or uint32", mask, word32, n_vocab.div_ceil(32))).transpose()?;
    Ok((row, mask))
}

fn token_id(field: &str, token: i64, n_vocab: usize) -> PyResult<u32> {
    match u32::try_from(token) {
        Ok(id) if (id as usize) < n_vocab => Ok(id),
        _ => Err(PyValueError::new_err(format!("{field}: token id {token} is not between 0 and {}", n_vocab - 1))),
    }
}

/// An int that fits 64 bits, signed or unsigned, modulo 2^64.
fn seed_bits(seed: &Bound<'_, PyAny>) -> PyResult<u64> {
    match seed.extract::<i128>() {
        Ok(value) if (i128::from(i64::MIN)..=i128::from(u64::MAX)).contains(&value) => Ok(value as u64),
        Err(error) if error.is_instance_of::<PyTypeError>(seed.py()) => {
            Err(PyTypeError::new_err("seed must be an int"))
        }
        _ => Err(PyValueError::new_err("seed must fit 64 bits")),
    }
}

fn position_of(position: &Bound<'_, PyAny>) -> PyResult<u64> {
    match position.extract::<i128>() {
        Ok(value) if (0..=i128::from(i64::MAX)).contains(&value) => Ok(value as u64),
        Err(error) if error.is_instance_of::<PyTypeError>(position.py()) => {
            Err(PyTypeError::new_err("position must be an int"))
        }
        _ => Err(PyValueError::new_err("position must be between 0 and 2^63 - 1")),
    }
}

/// A buffer of exactly `len` elements of the wanted type, aligned and C-contiguous.
///
/// Checked here and not by `PyBuffer<T>`, which takes the wrong one of '<' and '>' for the machine's byte order.
fn checked_buffer(
    field: &str,
    kind: &str,
    object: &Bound<'_, PyAny>,
    accepts: impl Fn(ElementType) -> bool,
    len: usize,
) -> PyResult<PyUntypedBuffer> {
    let wanted = |found: String| {
        PyValueError::new_err(format!("{field} must be a C-contiguous buffer of {len} {kind} values, not {found}"))
    };
    // PyO3 refuses buffers without strides, such as those of ctypes arrays; a memoryview supplies them.
    let buffer = PyUntypedBuffer::get(object)
        .or_else(|_| PyMemoryView::from(object).and_then(|view| PyUntypedBuffer::get(&view)))
        .map_err(|error| wanted(format!("this: {error}")))?;
    let format = buffer.format();
    let foreign = if cfg!(target_endian = "little") { b">!".as_slice() } else { b"<".as_slice() };
    if format.to_bytes().first().is_some_and(|order| foreign.contains(order))
        || !accepts(ElementType::from_format(format))
    {
        return Err(wanted(format!("one of format {format:?}")));
    }
    if buffer.item_count() != len {
        return Err(wanted(format!("{}", buffer.item_count())));
    }
    if !buffer.is_c_contiguous() || !(buffer.buf_ptr() as usize).is_multiple_of(buffer.item_size()) {
        return Err(wanted("one with gaps or unaligned".into()));
    }
    Ok(buffer)
}

/// SAFETY: the buffer holds C-contiguous, aligned elements as large as T, for which every bit pattern is valid.
unsafe fn slice_of<T>(buffer: &PyUntypedBuffer) -> &[T] {
    // SAFETY: as above; the length was checked to be at least 1, so the pointer is not null.
    unsafe { std::slice::from_raw_parts(buffer.buf_ptr().cast(), buffer.item_count()) }
}
