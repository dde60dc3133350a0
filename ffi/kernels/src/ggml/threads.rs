//! What one thread of a pass knows of it.

use super::abi::ComputeParams;
use super::install::seam;
use std::ops::Range;

/// Thread `index` of `count`, and the scratch memory they share.
#[derive(Clone, Copy)]
pub struct Thread<'a> {
    params: &'a ComputeParams,
    pub index: usize,
    pub count: usize,
}

impl<'a> Thread<'a> {
    pub fn new(params: &'a ComputeParams) -> Self {
        let positive = |n: i32| usize::try_from(n).unwrap_or(0);
        Self { params, index: positive(params.ith), count: positive(params.nth).max(1) }
    }

    /// This thread's share of `n` things: neighbours, so that it reads memory in a row.
    pub fn share(self, n: usize) -> Range<usize> {
        n * self.index / self.count..n * (self.index + 1) / self.count
    }

    /// The scratch memory, aligned to a cache line.
    pub fn scratch(self) -> *mut u8 {
        self.params.work_data.map_addr(|address| address.next_multiple_of(64))
    }

    /// Waits for all threads.
    pub fn wait(self) {
        if self.count > 1 {
            unsafe { (seam().symbols.barrier)(self.params.threadpool) }
        }
    }
}
