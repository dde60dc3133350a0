//! The sampling options, checked. No state.

/// Options of one request; every value is in range.
#[derive(Clone, Debug)]
pub struct Options {
    /// 0 is greedy.
    pub temperature: f64,
    /// 0 is off.
    pub top_k: usize,
    /// 1 is off.
    pub top_p: f64,
    /// 0 is off.
    pub min_p: f64,
    /// 1 is off.
    pub repetition_penalty: f64,
    pub frequency_penalty: f64,
    pub presence_penalty: f64,
}

impl Options {
    /// Names the first option that is out of range.
    pub fn check(&self) -> Result<(), String> {
        let float_max = f64::from(f32::MAX);
        let rules = [
            ("temperature", self.temperature, 0.0, float_max, "a finite number of at least 0"),
            ("top_p", self.top_p, 0.0, 1.0, "between 0 and 1"),
            ("min_p", self.min_p, 0.0, 1.0, "between 0 and 1"),
            ("repetition_penalty", self.repetition_penalty, f64::MIN_POSITIVE, float_max, "a finite number above 0"),
            ("frequency_penalty", self.frequency_penalty, -float_max, float_max, "a finite number"),
            ("presence_penalty", self.presence_penalty, -float_max, float_max, "a finite number"),
        ];
        for (name, value, low, high, rule) in rules {
            if !(low..=high).contains(&value) {
                return Err(format!("{name} must be {rule}, not {value}"));
            }
        }
        Ok(())
    }

    pub fn greedy(&self) -> bool {
        self.temperature == 0.0
    }

    pub fn penalises_prompt(&self) -> bool {
        self.repetition_penalty != 1.0
    }

    pub fn penalises_output(&self) -> bool {
        self.penalises_prompt() || self.frequency_penalty != 0.0 || self.presence_penalty != 0.0
    }
}
