//! Numbers for people.

/// Microseconds in the unit that people would choose.
pub fn span(us: u64) -> String {
    match us {
        0..1_000 => format!("{us} µs"),
        1_000..1_000_000 => format!("{:.2} ms", us as f64 / 1e3),
        _ => format!("{:.2} s", us as f64 / 1e6),
    }
}

/// A number with its thousands apart, and decimals only where they tell something.
pub fn number(value: f64) -> String {
    if value.abs() < 100.0 {
        let text = format!("{value:.3}");
        return text.trim_end_matches('0').trim_end_matches('.').to_owned();
    }
    let digits = format!("{value:.0}");
    let (sign, digits) = digits.strip_prefix('-').map_or(("", digits.as_str()), |it| ("-", it));
    let groups: Vec<&str> = (0..digits.len())
        .rev()
        .step_by(3)
        .map(|last| &digits[last.saturating_sub(2)..=last])
        .collect();
    format!("{sign}{}", groups.into_iter().rev().collect::<Vec<_>>().join(" "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_and_spans_are_readable() {
        assert_eq!(number(1_234_567.2), "1 234 567");
        assert_eq!(number(-1_234.0), "-1 234");
        assert_eq!(number(0.5), "0.5");
        assert_eq!(number(42.0), "42");
        assert_eq!(number(100.0), "100");
        assert_eq!(span(999), "999 µs");
        assert_eq!(span(1_500), "1.50 ms");
        assert_eq!(span(2_000_000), "2.00 s");
    }
}
