use atelico_kernels::product::{Panel, Product};
use atelico_kernels::tier;
use atelico_kernels::weights::{Shape, WeightType};
use std::time::Instant;

fn peak() -> f64 {
    use std::arch::x86_64::*;
    #[target_feature(enable = "avx512f,avx512vnni")]
    unsafe fn run(n: usize) -> i32 {
        let mut s = [_mm512_setzero_si512(); 12];
        let a = _mm512_set1_epi8(1);
        for _ in 0..n {
            for x in &mut s {
                *x = _mm512_dpbusd_epi32(*x, a, a);
            }
            std::hint::black_box(&mut s[0]);
        }
        s.iter().map(|x| _mm512_reduce_add_epi32(*x)).sum()
    }
    let t = Instant::now();
    std::hint::black_box(unsafe { run(10_000_000) });
    12.0 * 64.0 * 1e7 / t.elapsed().as_secs_f64() / 1e9
}

fn main() {
    println!("peak {:.0} G/s", peak());
    let tier = tier::choose(std::env::args().nth(1).as_deref()).unwrap();
    println!("{}", tier.name);
    let only: Option<usize> = std::env::var("N").ok().map(|n| n.parse().unwrap());
    let types = std::env::var("T").unwrap_or_default();
    for of in [
        WeightType::Q4_1,
        WeightType::Q4_0,
        WeightType::Q8_0,
        WeightType::Q4K,
        WeightType::Q6K,
        WeightType::Q5K,
        WeightType::Q3K,
        WeightType::Q2K,
        WeightType::Q5_0,
        WeightType::Iq4Xs,
    ] {
        for (cols, rows, copies) in [(768, 2048, 40)] {
            let shape = Shape::new(of, cols, rows).unwrap();
            let layout = of.layout().unwrap();
            let mut w = vec![0x11_u8; shape.packed_bytes() * copies + 4096];
            let at = w.as_mut_ptr().map_addr(|a| a.next_multiple_of(4096));
            if !types.is_empty() && types != format!("{of:?}") {
                continue;
            }
            print!("{of:?} {:.1} MB:", (shape.packed_bytes() * copies) as f64 / 1e6);
            for n in [1, 2, 3, 4, 6, 8, 16] {
                if only.is_some_and(|only| only != n) {
                    continue;
                }
                let n_panels = usize::div_ceil(n, tier.tile);
                let mut panels = vec![];
                let mut out = vec![0f32; n * rows];
                let mut act = vec![0u8; n * layout.row_bytes() * cols / 32 + 64];
                let x: Vec<f32> = (0..cols).map(|i| (i % 17) as f32 - 8.0).collect();
                let mut ap = act.as_mut_ptr().map_addr(|a| a.next_multiple_of(64));
                let mut done = 0;
                for p in 0..n_panels {
                    let m = n * (p + 1) / n_panels - n * p / n_panels;
                    let mut outputs = [std::ptr::null_mut(); 8];
                    for r in 0..m {
                        unsafe { (tier.quantize)(x.as_ptr(), cols, ap, r, m, layout) };
                        outputs[r] = unsafe { out.as_mut_ptr().add((done + r) * rows) };
                    }
                    panels.push(Panel { activations: ap, n_rows: m, outputs });
                    ap = unsafe { ap.add(m * layout.row_bytes() * cols / 32) };
                    done += m;
                }
                let mut best = f64::MAX;
                let reps = (4_000_000_000 / (cols * rows * copies * n)).clamp(1, 2000);
                for _ in 0..5 {
                    let t = Instant::now();
                    for _ in 0..reps {
                        for c in 0..copies {
                            let product = Product {
                                weights: unsafe { at.add(c * shape.packed_bytes()) },
                                n_columns: cols,
                                n_outputs: rows,
                                panels: &panels,
                            };
                            unsafe { tier.multiply(of)(&product, 0, shape.n_groups()) };
                        }
                    }
                    best = best.min(t.elapsed().as_secs_f64() / reps as f64);
                }
                let macs = (cols * rows * copies * n) as f64;
                print!(
                    "  {n}: {:.0} G/s ({:.2}/row1 GB/s {:.0})",
                    macs / best / 1e9,
                    best * 1e3,
                    (shape.packed_bytes() * copies) as f64 / best / 1e9
                );
            }
            println!();
        }
    }
}
