//! The alert rules, and what the runbook says of each.

use crate::observability::dashboard;

/// One rule of `grafana/alerts.yml`.
#[derive(Debug, Default, PartialEq)]
pub struct Alert {
    /// Its name.
    pub name: String,
    /// Its expression.
    pub expr: String,
    /// Its lines.
    text: String,
}

/// Every alert. Reads the form in which the file is written: `- alert:` begins a rule, and `expr:` is
/// followed by the expression or by a block that is indented deeper. The test with a real Prometheus
/// holds what it loaded against this.
pub fn all() -> Vec<Alert> {
    let text = read("alerts.yml");
    let mut alerts: Vec<Alert> = Vec::new();
    let mut block = None;
    for line in text.lines() {
        let depth = line.len() - line.trim_start().len();
        let words = line.trim();
        if let Some(name) = words.strip_prefix("- alert: ") {
            alerts.push(Alert { name: name.into(), ..Alert::default() });
        }
        let Some(alert) = alerts.last_mut() else { continue };
        alert.text += line;
        alert.text += "\n";
        match (words.strip_prefix("expr: "), block) {
            (Some("|"), _) => block = Some(depth),
            (Some(expr), _) => alert.expr = expr.into(),
            (None, Some(outer)) if depth > outer => alert.expr += &format!(" {words}"),
            _ => block = None,
        }
    }
    for alert in &mut alerts {
        alert.expr = alert.expr.trim().to_owned();
    }
    alerts
}

pub fn read(file: &str) -> String {
    std::fs::read_to_string(dashboard::folder().join(file)).expect(file)
}

#[test]
fn every_alert_has_severity_summary_description_and_runbook() {
    let alerts = all();
    assert!(alerts.len() >= 8, "{alerts:?}");
    for Alert { name, expr, text } in &alerts {
        assert!(name.starts_with("Tenure"), "{name}");
        promql_parser::parser::parse(expr).unwrap_or_else(|error| panic!("{name}: {error}"));
        for part in ["severity: ", "summary: ", "description: "] {
            assert_eq!(text.matches(part).count(), 1, "{name}: {part}");
        }
        let link = format!(
            "runbook_url: https://tenure.example/docs/runbook.html#{}\n",
            name.to_lowercase()
        );
        assert!(text.contains(&link), "{name} links to its section");
        assert!(!expr.contains("job="), "{name} names a job");
    }
}

#[test]
fn the_runbook_has_one_section_for_each_alert_with_meaning_check_and_do() {
    let path = dashboard::folder().join("../docs/runbook.md");
    let text = std::fs::read_to_string(path).expect("docs/runbook.md");
    let sections: Vec<&str> = text.split("\n## ").skip(1).collect();
    let mut titles: Vec<&str> = sections.iter().filter_map(|s| s.lines().next()).collect();
    let mut names: Vec<String> = all().into_iter().map(|alert| alert.name).collect();
    titles.sort_unstable();
    names.sort_unstable();
    assert_eq!(titles, names);
    for section in sections {
        for part in ["**Meaning.**", "**Check.**", "**Do.**"] {
            assert_eq!(section.matches(part).count(), 1, "{part} of {section}");
        }
    }
}

#[test]
fn the_runbook_and_the_alerts_name_panels_that_exist() {
    let path = dashboard::folder().join("../docs/runbook.md");
    let text = std::fs::read_to_string(path).expect("docs/runbook.md").replace('\n', " ");
    let titles: Vec<String> = dashboard::all()
        .iter()
        .flat_map(|board| {
            let own = dashboard::text(&board.json["title"]).to_owned();
            let panels =
                board.panels().into_iter().map(|p| dashboard::text(&p["title"]).to_owned());
            panels.chain([own]).collect::<Vec<_>>()
        })
        .collect();
    let text = text.replace("**", "");
    for named in text.split('*').skip(1).step_by(2) {
        assert!(titles.iter().any(|title| title.starts_with(named)), "no panel {named:?}");
    }
}

#[test]
fn every_alert_is_fired_by_a_test() {
    let tests = read("alerts_test.yml");
    for alert in all() {
        let fires = tests
            .split("alertname: ")
            .any(|part| part.lines().next() == Some(&alert.name) && part.contains("exp_alerts:"));
        assert!(fires, "alerts_test.yml does not fire {}", alert.name);
    }
}
