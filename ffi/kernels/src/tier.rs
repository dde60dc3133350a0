//! The kernels compiled once per set of instructions, and the choice among them at run time.

use crate::activations::{Layout, interleave, quantize};
use crate::attention::{Attention, Part, attend};
use crate::formats::{Iq4Nl, Iq4Xs, Mxfp4, Q2K, Q3K, Q4_0, Q4_1, Q4K, Q5_0, Q5_1, Q5K, Q6K, Q8_0};
use crate::product::{Bf16, F16, F32, Product, floats, quantized};
use crate::simd::Simd;
use crate::weights::WeightType;

type Multiply = unsafe fn(&Product, usize, usize);

/// All kernels for one set of instructions. Every function is as unsafe as the one it is named after.
pub struct Tier {
    pub name: &'static str,
    /// Rows of a panel at most.
    pub tile: usize,
    is_supported: fn() -> bool,
    pub quantize: unsafe fn(*const f32, usize, *mut u8, usize, usize, Layout),
    pub interleave: unsafe fn(*const f32, usize, *mut u8, usize, usize),
    pub attend: unsafe fn(&Attention, &Part, *mut f32),
    /// By `WeightType`.
    multiply: [Multiply; WeightType::ALL.len()],
}

impl Tier {
    /// The product with weights of type `of`.
    #[must_use]
    pub fn multiply(&self, of: WeightType) -> Multiply {
        self.multiply[of as usize]
    }

    /// Whether this processor has the instructions.
    #[must_use]
    pub fn is_supported(&self) -> bool {
        (self.is_supported)()
    }
}

macro_rules! tier {
    ($module:ident, $simd:ty, $name:literal, $features:literal, $supported:expr) => {
        mod $module {
            use super::*;

            #[target_feature(enable = $features)]
            unsafe fn quantize_row(
                x: *const f32,
                n_columns: usize,
                panel: *mut u8,
                row: usize,
                n_rows: usize,
                layout: Layout,
            ) {
                unsafe { quantize::<$simd>(x, n_columns, panel, row, n_rows, layout) }
            }
            #[target_feature(enable = $features)]
            unsafe fn interleave_row(x: *const f32, n_columns: usize, panel: *mut u8, row: usize, n_rows: usize) {
                unsafe { interleave(x, n_columns, panel, row, n_rows) }
            }
            #[target_feature(enable = $features)]
            unsafe fn attend_part(op: &Attention, part: &Part, scratch: *mut f32) {
                unsafe { attend::<$simd>(op, part, scratch) }
            }
            #[target_feature(enable = $features)]
            unsafe fn multiply<F: crate::formats::Format>(product: &Product, first: usize, last: usize) {
                unsafe { quantized::<$simd, F>(product, first, last) }
            }
            #[target_feature(enable = $features)]
            unsafe fn multiply_floats<T: crate::product::Float>(product: &Product, first: usize, last: usize) {
                unsafe { floats::<$simd, T>(product, first, last) }
            }

            pub static TIER: Tier = Tier {
                name: $name,
                tile: <$simd as Simd>::TILE,
                is_supported: $supported,
                quantize: quantize_row,
                interleave: interleave_row,
                attend: attend_part,
                multiply: [
                    multiply::<Q4_0>,
                    multiply::<Q4_1>,
                    multiply::<Q5_0>,
                    multiply::<Q5_1>,
                    multiply::<Q8_0>,
                    multiply::<Q2K>,
                    multiply::<Q3K>,
                    multiply::<Q4K>,
                    multiply::<Q5K>,
                    multiply::<Q6K>,
                    multiply::<Iq4Nl>,
                    multiply::<Iq4Xs>,
                    multiply::<Mxfp4>,
                    multiply_floats::<F32>,
                    multiply_floats::<F16>,
                    multiply_floats::<Bf16>,
                ],
            };
        }
    };
}

#[cfg(target_arch = "x86_64")]
mod x86 {
    use super::*;
    use crate::simd::avx2::{Avx2, Pairs, Vnni, VnniEvex};
    use crate::simd::avx512::Avx512;
    use crate::simd::sse::Sse;
    use std::arch::is_x86_feature_detected as has;

    fn has_avx512() -> bool {
        has!("avx512f") && has!("avx512bw") && has!("avx512dq") && has!("avx512vl") && has!("avx512vnni") && has_avx2()
    }
    fn has_avx2() -> bool {
        has!("avx2") && has!("fma") && has!("f16c")
    }

    tier!(avx512, Avx512, "avx512-vnni", "avx512f,avx512bw,avx512dq,avx512vl,avx512vnni,avx2,fma,f16c", has_avx512);
    tier!(avx_vnni, Avx2<Vnni>, "avx-vnni", "avxvnni,avx2,fma,f16c", || has!("avxvnni") && has_avx2());
    tier!(evex, Avx2<VnniEvex>, "avx-vnni-evex", "avx512f,avx512vl,avx512vnni,avx2,fma,f16c", has_avx512);
    tier!(avx2, Avx2<Pairs>, "avx2", "avx2,fma,f16c", has_avx2);
    tier!(sse42, Sse, "sse4.2", "sse4.2,ssse3", || has!("sse4.2") && has!("ssse3"));

    // The best first. The one in AVX-512's encoding serves to test the sums of avx-vnni, so it stands last.
    pub static TIERS: [&Tier; 5] = [&avx512::TIER, &avx_vnni::TIER, &avx2::TIER, &sse42::TIER, &evex::TIER];
}

#[cfg(target_arch = "aarch64")]
mod arm {
    use super::*;
    use crate::simd::neon::{Dotprod, I8mm, Neon, Plain};
    use std::arch::is_aarch64_feature_detected as has;

    tier!(i8mm, Neon<I8mm>, "neon-i8mm", "neon,i8mm", || has!("i8mm") && has!("neon"));
    tier!(dotprod, Neon<Dotprod>, "neon-dotprod", "neon,dotprod", || has!("dotprod") && has!("neon"));
    tier!(plain, Neon<Plain>, "neon", "neon", || has!("neon"));

    // The best first.
    pub static TIERS: [&Tier; 3] = [&i8mm::TIER, &dotprod::TIER, &plain::TIER];
}

#[cfg(target_arch = "aarch64")]
use arm::TIERS;
#[cfg(target_arch = "x86_64")]
use x86::TIERS;

#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
static TIERS: [&Tier; 0] = [];

/// Every set of kernels that this processor can run, the best first.
pub fn supported() -> impl Iterator<Item = &'static Tier> {
    TIERS.iter().copied().filter(|tier| tier.is_supported())
}

/// The best set of kernels for this processor, or the one called `name`; None where it cannot run it.
#[must_use]
pub fn choose(name: Option<&str>) -> Option<&'static Tier> {
    supported().find(|tier| name.is_none_or(|name| tier.name == name))
}
