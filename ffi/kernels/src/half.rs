//! A half float, widened; for single values.

/// The value of 16 bits as IEEE 754 reads them.
#[must_use]
#[inline(always)]
pub fn widened(bits: u16) -> f32 {
    let magnitude = u32::from(bits & 0x7FFF) << 13;
    let sign = u32::from(bits & 0x8000) << 16;
    let value = if magnitude >= 0x0F80_0000 {
        magnitude | 0x7F80_0000 // infinities and what is no number
    } else {
        (f32::from_bits(magnitude) * f32::from_bits(0x7780_0000)).to_bits()
    };
    f32::from_bits(value | sign)
}
