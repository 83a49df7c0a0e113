//! Reads the server's own figures from `/metrics`.
//!
//! Assumes the Prometheus text format without time stamps, one series a line.

/// One scrape.
#[derive(Clone, Debug, Default)]
pub struct Scrape(String);

impl Scrape {
    /// Takes the text of a scrape.
    pub fn new(text: &str) -> Self {
        Self(text.to_owned())
    }

    /// The series of `name` whose labels contain each of `labels` (written `key="value"`).
    fn series<'a>(
        &'a self,
        name: &'a str,
        labels: &'a [&'a str],
    ) -> impl Iterator<Item = (&'a str, f64)> {
        self.0.lines().filter_map(move |line| {
            let rest = line.strip_prefix(name)?;
            let (of_labels, value) = match rest.strip_prefix('{') {
                Some(inner) => inner.rsplit_once('}')?,
                None => ("", rest.strip_prefix(' ')?),
            };
            let matches = labels.iter().all(|label| of_labels.contains(label));
            matches.then_some((of_labels, value.trim().parse().ok()?))
        })
    }

    /// The sum over the series of `name` with `labels`; `None` when there is none.
    pub fn sum(&self, name: &str, labels: &[&str]) -> Option<f64> {
        self.series(name, labels).map(|(_, value)| value).reduce(|sum, value| sum + value)
    }

    /// The cumulative buckets of the histogram `name`, as (upper bound, count), summed over labels.
    fn buckets(&self, name: &str) -> Vec<(f64, f64)> {
        let bucket = format!("{name}_bucket");
        let mut buckets: Vec<(f64, f64)> = Vec::new();
        for (labels, count) in self.series(&bucket, &[]) {
            let Some(bound) = labels
                .split_once("le=\"")
                .and_then(|(_, rest)| rest.split('"').next())
                .and_then(|text| text.parse::<f64>().ok())
            else {
                continue;
            };
            match buckets.iter_mut().find(|(known, _)| known.total_cmp(&bound).is_eq()) {
                Some((_, sum)) => *sum += count,
                None => buckets.push((bound, count)),
            }
        }
        buckets.sort_by(|one, two| one.0.total_cmp(&two.0));
        buckets
    }

    /// The `quantile` of what the histogram `name` gained since `before`, interpolated within its
    /// bucket as Prometheus does; `None` when it is absent or gained nothing.
    pub fn quantile_since(&self, before: &Self, name: &str, quantile: f64) -> Option<f64> {
        let old = before.buckets(name);
        let gained: Vec<(f64, f64)> = self
            .buckets(name)
            .into_iter()
            .map(|(bound, count)| {
                let was = old.iter().find(|(known, _)| known.total_cmp(&bound).is_eq());
                (bound, count - was.map_or(0.0, |(_, count)| *count))
            })
            .collect();
        let rank = quantile * gained.last().filter(|(_, count)| *count > 0.0)?.1;
        let (mut lower, mut below) = (0.0, 0.0);
        for (bound, count) in gained {
            if count >= rank {
                return Some(if bound.is_finite() {
                    lower + (bound - lower) * (rank - below) / (count - below).max(1.0)
                } else {
                    lower
                });
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
    fn sums_the_series_with_the_labels() {
        let scrape = Scrape::new(TEXT);
        assert_eq!(scrape.sum("tenure_x_count", &["op=\"compare_and_set\""]), Some(9.0));
        assert_eq!(scrape.sum("tenure_x_count", &[]), Some(14.0));
        assert_eq!(scrape.sum("plain", &[]), Some(1500.0));
        assert_eq!(scrape.sum("tenure_x", &[]), None);
    }

    #[test]
    fn a_quantile_is_interpolated_in_what_was_gained() {
        let scrape = Scrape::new(TEXT);
        let none = Scrape::default();
        let median = scrape.quantile_since(&none, "late", 0.5).unwrap();
        assert!((median - 0.1).abs() < 1e-9, "{median}");
        let p70 = scrape.quantile_since(&none, "late", 0.7).unwrap();
        assert!((p70 - 0.15).abs() < 1e-9, "{p70}");
        assert_eq!(scrape.quantile_since(&none, "late", 0.99), Some(0.2));
        assert_eq!(scrape.quantile_since(&scrape, "late", 0.5), None);
    }
}
