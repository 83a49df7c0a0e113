//! The table of contenders, in the form of docs/performance.md.

use crate::units::{number, span};

/// The contenders, in the order of the table's columns. The first one is measured against the others.
pub const COLUMNS: [&str; 5] = ["tenure", "tenure by stream", "Redis", "echo", "durable echo"];
/// A contender that did not take part.
const ABSENT: &str = "–";

/// What one contender showed at some work.
#[derive(Clone, Debug)]
pub struct Cell {
    /// Which of [`COLUMNS`].
    pub column: &'static str,
    /// What it reached.
    pub text: String,
    /// The first contender's share of its rate; `None` for the first one itself, and where no rate is compared.
    pub share: Option<f64>,
}

/// A row of the table.
#[derive(Clone, Debug)]
pub struct Compared {
    /// The work and its unit.
    pub work: String,
    /// The number of connections of each contender.
    pub connections: usize,
    /// The version of the Redis that took part.
    pub redis_version: Option<String>,
    /// Who took part.
    pub cells: Vec<Cell>,
    /// What share of Redis's rate the streams reach, if both took part.
    pub stream_of_redis: Option<f64>,
}

/// The rows as a Markdown table.
pub fn table(rows: &[Compared]) -> String {
    let mut head = vec!["work".to_owned(), "connections".to_owned()];
    let version = rows.iter().find_map(|row| row.redis_version.as_deref());
    head.extend(COLUMNS.map(|name| match version {
        Some(version) if name == "Redis" => format!("{name} {version}"),
        _ => name.to_owned(),
    }));
    head.push("ratios".to_owned());
    let rule = vec!["---".to_owned(); head.len()];
    let lines = [head, rule].into_iter().chain(rows.iter().map(Compared::texts));
    lines.map(|texts| format!("| {} |\n", texts.join(" | "))).collect()
}

impl Compared {
    /// The texts of its columns.
    fn texts(&self) -> Vec<String> {
        let mut texts = vec![self.work.clone(), self.connections.to_string()];
        texts.extend(COLUMNS.map(|column| {
            let cell = self.cells.iter().find(|cell| cell.column == column);
            cell.map_or_else(|| ABSENT.to_owned(), |cell| cell.text.clone())
        }));
        let share = |cell: &Cell| {
            let share = cell.share? * 100.0;
            Some(format!("{share:.0} % of {}", cell.column))
        };
        let mut shares: Vec<String> = self.cells.iter().filter_map(share).collect();
        let stream = self.stream_of_redis.map(|share| share * 100.0);
        shares.extend(stream.map(|share| format!("by stream {share:.0} % of Redis")));
        texts.push(if shares.is_empty() { ABSENT.to_owned() } else { shares.join(", ") });
        texts
    }
}

/// A rate per second, the server's processor time per unit of work, and a median latency.
pub fn rate(per_s: f64, server_cpu_us: f64, p50_us: Option<u64>) -> String {
    let p50 = p50_us.map_or_else(String::new, |us| format!(", p50 {}", span(us)));
    format!("{}/s, {server_cpu_us:.1} µs{p50}", number(per_s.round()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_has_a_column_for_each_contender_and_the_shares_of_the_first() {
        let text = rate(1_650.4, 376.04, Some(590));
        let tenure = Cell { column: "tenure", text, share: None };
        let text = rate(2_320.0, 204.0, None);
        let redis = Cell { column: "Redis", text, share: Some(0.714) };
        let row = Compared {
            work: "acquire + release, cycles".to_owned(),
            connections: 1,
            redis_version: Some("7.0".to_owned()),
            cells: vec![tenure, redis],
            stream_of_redis: None,
        };
        let wanted = "| work | connections | tenure | tenure by stream | Redis 7.0 | echo | durable echo | ratios |\n\
            | --- | --- | --- | --- | --- | --- | --- | --- |\n\
            | acquire + release, cycles | 1 | 1 650/s, 376.0 µs, p50 590 µs | – | 2 320/s, 204.0 µs | – | – | \
            71 % of Redis |\n";
        assert_eq!(table(&[row]), wanted);
    }
}
