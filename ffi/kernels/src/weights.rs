//! The types of weights that have kernels, and how a matrix of each is packed.

use crate::activations::Layout;
use crate::formats::{Format, GROUP, Iq4Nl, Iq4Xs, Mxfp4, Q2K, Q3K, Q4_0, Q4_1, Q4K, Q5_0, Q5_1, Q5K, Q6K, Q8_0};

macro_rules! weight_types {
    ($($name:ident = $number:literal),+; $($float:ident = $float_number:literal, $bytes:literal),+) => {
        /// A type of weights; the numbers are ggml's.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum WeightType {
            $($name,)+
            $($float,)+
        }

        impl WeightType {
            /// All of them, in the order of their kernels.
            pub const ALL: &[Self] = &[$(Self::$name,)+ $(Self::$float,)+];

            /// The type with ggml's number `of`, if it has kernels.
            #[must_use]
            pub fn from_ggml(of: u32) -> Option<Self> {
                match of {
                    $($number => Some(Self::$name),)+
                    $($float_number => Some(Self::$float),)+
                    _ => None,
                }
            }

            /// Columns of a block, bytes of it in ggml, bytes of it packed for 16 rows.
            #[must_use]
            pub fn block(self) -> (usize, usize, usize) {
                match self {
                    $(Self::$name => ($name::VALUES, $name::SOURCE, $name::BYTES),)+
                    $(Self::$float => (32, 32 * $bytes, 32 * $bytes * GROUP),)+
                }
            }

            /// What activations must hold for it; nothing for weights in floats.
            #[must_use]
            pub fn layout(self) -> Option<Layout> {
                match self {
                    $(Self::$name => Some(Layout::of::<$name>()),)+
                    $(Self::$float => None,)+
                }
            }

            /// Packs one block of 16 rows.
            unsafe fn pack_block(self, rows: &[*const u8; GROUP], block: *mut u8) {
                match self {
                    $(Self::$name => unsafe { $name::pack(rows, block) },)+
                    $(Self::$float => unsafe { pack_floats::<$bytes>(rows, block) },)+
                }
            }
        }
    };
}
weight_types!(
    Q4_0 = 2, Q4_1 = 3, Q5_0 = 6, Q5_1 = 7, Q8_0 = 8,
    Q2K = 10, Q3K = 11, Q4K = 12, Q5K = 13, Q6K = 14,
    Iq4Nl = 20, Iq4Xs = 23, Mxfp4 = 39;
    F32 = 0, 4, F16 = 1, 2, Bf16 = 30, 2
);

/// 32 columns of 16 rows, column after column.
#[inline(always)]
unsafe fn pack_floats<const BYTES: usize>(rows: &[*const u8; GROUP], block: *mut u8) {
    for (r, row) in rows.iter().enumerate() {
        for k in 0..32 {
            unsafe {
                let to = block.add((k * GROUP + r) * BYTES).cast::<[u8; BYTES]>();
                to.write_unaligned(row.add(k * BYTES).cast::<[u8; BYTES]>().read_unaligned());
            }
        }
    }
}

/// A matrix as it lies in memory: `n_columns` values in a row, `n_rows` outputs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shape {
    pub of: WeightType,
    pub n_columns: usize,
    pub n_rows: usize,
}

impl Shape {
    /// The shape, if kernels can take it.
    #[must_use]
    pub fn new(of: WeightType, n_columns: usize, n_rows: usize) -> Option<Self> {
        let fits = n_columns > 0 && n_rows > 0 && n_columns.is_multiple_of(of.block().0);
        fits.then_some(Self { of, n_columns, n_rows })
    }

    /// Groups of 16 rows, the last one filled up.
    #[must_use]
    pub fn n_groups(self) -> usize {
        self.n_rows.div_ceil(GROUP)
    }

    #[must_use]
    pub fn group_bytes(self) -> usize {
        let (values, _, packed) = self.of.block();
        self.n_columns / values * packed
    }

    #[must_use]
    pub fn packed_bytes(self) -> usize {
        self.n_groups() * self.group_bytes()
    }

    /// Bytes of a row in ggml's layout.
    #[must_use]
    pub fn source_row_bytes(self) -> usize {
        let (values, source, _) = self.of.block();
        self.n_columns / values * source
    }

    /// Packs groups `first..last`. Rows that are none are copies of the last one; nobody reads their outputs.
    ///
    /// # Safety
    ///
    /// `source` has the whole matrix in ggml's layout, `packed` room for `packed_bytes`.
    pub unsafe fn pack(self, source: *const u8, packed: *mut u8, first: usize, last: usize) {
        let (values, source_bytes, packed_bytes) = self.of.block();
        for group in first..last {
            let mut rows = [source; GROUP];
            for (r, row) in rows.iter_mut().enumerate() {
                let index = (group * GROUP + r).min(self.n_rows - 1);
                *row = unsafe { source.add(index * self.source_row_bytes()) };
            }
            for b in 0..self.n_columns / values {
                unsafe {
                    let block = packed.add(group * self.group_bytes() + b * packed_bytes);
                    self.of.pack_block(&rows, block);
                    for row in &mut rows {
                        *row = row.add(source_bytes);
                    }
                }
            }
        }
    }

    /// Packs the whole matrix with as many threads as the machine has, for large ones.
    ///
    /// # Safety
    ///
    /// As `pack`.
    pub unsafe fn pack_all(self, source: *const u8, packed: *mut u8) {
        const WORTH_A_THREAD: usize = 1 << 18;
        let n_threads = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
        let n_threads = n_threads.min(self.packed_bytes() / WORTH_A_THREAD).max(1);
        let per_thread = self.n_groups().div_ceil(n_threads);
        let (source, packed) = (source as usize, packed as usize); // addresses may cross threads
        std::thread::scope(|scope| {
            for t in 1..n_threads {
                let range = (t * per_thread).min(self.n_groups())..((t + 1) * per_thread).min(self.n_groups());
                scope.spawn(move || unsafe {
                    self.pack(source as *const u8, packed as *mut u8, range.start, range.end);
                });
            }
            unsafe { self.pack(source as *const u8, packed as *mut u8, 0, per_thread.min(self.n_groups())) };
        });
    }
}
