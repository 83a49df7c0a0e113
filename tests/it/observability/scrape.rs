//! A scrape, taken apart exactly: the text form escapes label values, and a test that looks for leaked
//! keys must not lose one to a comma.

use std::collections::BTreeMap;

/// One sample.
#[derive(Clone, Debug, PartialEq)]
pub struct Series {
    /// The sample's name, `_bucket`, `_sum` and `_count` included.
    pub name: String,
    /// Its labels, `le` included.
    pub labels: BTreeMap<String, String>,
    /// Its value.
    pub value: f64,
}

/// Everything that a scrape said.
#[derive(Clone, Debug, Default)]
pub struct Scrape {
    /// The declared type of each metric.
    pub types: BTreeMap<String, String>,
    /// The help of each metric.
    pub help: BTreeMap<String, String>,
    /// The samples.
    pub series: Vec<Series>,
}

impl Scrape {
    /// Reads the Prometheus text form.
    ///
    /// # Panics
    /// On a line that is not of it.
    pub fn parse(text: &str) -> Self {
        let mut scrape = Self::default();
        for line in text.lines().filter(|line| !line.is_empty()) {
            if let Some(rest) = line.strip_prefix("# TYPE ") {
                let (name, kind) = rest.split_once(' ').expect("a type");
                scrape.types.insert(name.into(), kind.into());
            } else if let Some(rest) = line.strip_prefix("# HELP ") {
                let (name, help) = rest.split_once(' ').expect("a help text");
                scrape.help.insert(name.into(), help.into());
            } else {
                scrape.series.push(sample(line));
            }
        }
        scrape
    }

    /// The sum of the samples of a name whose labels include these.
    pub fn sum(&self, name: &str, labels: &[(&str, &str)]) -> f64 {
        let fits = |series: &&Series| {
            series.name == name
                && labels.iter().all(|(k, v)| series.labels.get(*k).is_some_and(|have| have == v))
        };
        self.series.iter().filter(fits).map(|series| series.value).sum()
    }

    /// The samples of a name.
    pub fn of<'a>(&'a self, name: &'a str) -> impl Iterator<Item = &'a Series> {
        self.series.iter().filter(move |series| series.name == name)
    }
}

fn sample(line: &str) -> Series {
    let (head, value) = line.rsplit_once(' ').expect("a value");
    let value = value.parse().unwrap_or_else(|_| panic!("no number at the end of {line:?}"));
    let Some((name, labels)) = head.split_once('{') else {
        return Series { name: head.into(), labels: BTreeMap::new(), value };
    };
    Series { name: name.into(), labels: labels_of(labels), value }
}

/// Reads `a="x",b="y"}`.
fn labels_of(text: &str) -> BTreeMap<String, String> {
    let mut labels = BTreeMap::new();
    let mut rest = text;
    while rest != "}" {
        let (name, after) = rest.split_once("=\"").expect("a label");
        let (mut value, mut escaped, mut end) = (String::new(), false, None);
        for (at, letter) in after.char_indices() {
            match (escaped, letter) {
                (true, 'n') => value.push('\n'),
                (true, other) => value.push(other),
                (false, '"') => {
                    end = Some(at + 1);
                    break;
                }
                (false, '\\') => {}
                (false, other) => value.push(other),
            }
            escaped = !escaped && letter == '\\';
        }
        rest = &after[end.expect("a closing quote")..];
        rest = rest.strip_prefix(',').unwrap_or(rest);
        labels.insert(name.into(), value);
    }
    labels
}

#[test]
fn a_label_value_with_commas_quotes_and_braces_is_read_as_it_is() {
    let scrape = Scrape::parse("# TYPE a counter\na{x=\"1,\\\"}\\\\\\n\",le=\"+Inf\"} 2.5\na 1\n");
    assert_eq!(scrape.series[0].labels["x"], "1,\"}\\\n");
    assert_eq!(scrape.series[0].labels["le"], "+Inf");
    assert!((scrape.sum("a", &[]) - 3.5).abs() < 1e-9);
    assert_eq!(scrape.types["a"], "counter");
}
