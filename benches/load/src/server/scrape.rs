//! Reads the server's own figures from `/metrics`.
//!
//! Assumes the Prometheus text format without time stamps, one series a line.

/// One scrape.
#[derive(Clone, Debug, Default)]
pub struct Scrape(String);

impl Scrape {
    /// Takes the text of a scrape.
    pub fn new(text: String) -> Self {
        Self(text)
    }

    /// The labels and values of the series of `name`.
    fn series<'a>(&'a self, name: &'a str) -> impl Iterator<Item = (&'a str, f64)> {
        self.0.lines().filter_map(move |line| {
            let (series, value) = line.rsplit_once(' ')?;
            let labels = series.strip_prefix(name)?;
            let whole = labels.is_empty() || labels.starts_with('{');
            Some((labels, value.parse().ok()?)).filter(|_| whole)
        })
    }

    /// The sum over the series of `name` that have `label` (written `key="value"`; all of them where it is
    /// empty); `None` when there is none.
    pub fn sum(&self, name: &str, label: &str) -> Option<f64> {
        let found = self.series(name).filter(|(labels, _)| labels.contains(label));
        found.map(|(_, value)| value).reduce(|sum, value| sum + value)
    }

    /// The upper bounds of the buckets of the histogram `name`, in order, and the cumulative count of each.
    fn buckets(&self, name: &str) -> Vec<(f64, f64)> {
        let bound = |labels: &str| labels.split_once("le=\"")?.1.split('"').next()?.parse().ok();
        let name = format!("{name}_bucket");
        let found = self.series(&name);
        let mut buckets: Vec<(f64, f64)> =
            found.filter_map(|(labels, count)| Some((bound(labels)?, count))).collect();
        buckets.sort_by(|one, two| one.0.total_cmp(&two.0));
        // One bucket per bound, whatever other labels there are.
        buckets.dedup_by(|next, kept| {
            let same = next.0.total_cmp(&kept.0).is_eq();
            kept.1 += if same { next.1 } else { 0.0 };
            same
        });
        buckets
    }

    /// The `quantile` of what the histogram `name` gained since `before`, interpolated within its
    /// bucket as Prometheus does; `None` when it is absent or gained nothing.
    pub fn quantile_since(&self, before: &Self, name: &str, quantile: f64) -> Option<f64> {
        let (old, mut gained) = (before.buckets(name), self.buckets(name));
        for (bound, count) in &mut gained {
            let was = old.iter().find(|(known, _)| known.total_cmp(bound).is_eq());
            *count -= was.map_or(0.0, |(_, count)| *count);
        }
        let rank = quantile * gained.last().filter(|(_, count)| *count > 0.0)?.1;
        let (mut lower, mut below) = (0.0, 0.0);
        for (bound, count) in gained {
            if count >= rank && bound.is_finite() {
                return Some(lower + (bound - lower) * (rank - below) / (count - below).max(1.0));
            } else if count >= rank {
                return Some(lower);
            }
            (lower, below) = (bound, count);
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "# HELP tenure_x_count nothing\n\
        tenure_x_count{op=\"compare_and_set\",outcome=\"ok\"} 7\n\
        tenure_x_count{op=\"compare_and_set\",outcome=\"conflict\"} 2\n\
        tenure_x_count{op=\"read\"} 5\n\
        plain 1.5e3\n\
        late_bucket{le=\"0.1\"} 50\nlate_bucket{le=\"0.2\"} 90\nlate_bucket{le=\"+Inf\"} 100\n";

    #[test]
    fn sums_the_series_with_the_label() {
        let scrape = Scrape::new(TEXT.to_owned());
        assert_eq!(scrape.sum("tenure_x_count", "op=\"compare_and_set\""), Some(9.0));
        assert_eq!(scrape.sum("tenure_x_count", ""), Some(14.0));
        assert_eq!(scrape.sum("plain", ""), Some(1500.0));
        assert_eq!(scrape.sum("tenure_x", ""), None);
    }

    #[test]
    fn a_quantile_is_interpolated_in_what_was_gained() {
        let scrape = Scrape::new(TEXT.to_owned());
        let none = Scrape::default();
        let median = scrape.quantile_since(&none, "late", 0.5).unwrap();
        assert!((median - 0.1).abs() < 1e-9, "{median}");
        let p70 = scrape.quantile_since(&none, "late", 0.7).unwrap();
        assert!((p70 - 0.15).abs() < 1e-9, "{p70}");
        assert_eq!(scrape.quantile_since(&none, "late", 0.99), Some(0.2));
        assert_eq!(scrape.quantile_since(&scrape, "late", 0.5), None);
    }
}
