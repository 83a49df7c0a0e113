//! Which members of a pool may have the keys of a policy, and which should, by the labels of the members.

use std::fmt;

use super::labels::{Labels, check_label_name, check_label_value};

/// The most entries of `require`, and of `prefer`.
pub const MAX_LABEL_RULES: usize = 8;

/// What a label of a member must be. Its forms are `name`, `!name`, `name=value` and `name!=value`.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct LabelRule {
    name: Box<str>,
    /// The value; `None` if any will do.
    value: Option<Box<str>>,
    is_not: bool,
}

impl LabelRule {
    /// Reads one of the four forms.
    ///
    /// # Errors
    /// What is wrong with it.
    pub fn parse(text: &str) -> Result<Self, String> {
        let (text, denied) = text.strip_prefix('!').map_or((text, false), |rest| (rest, true));
        let (name, value) = match text.split_once('=') {
            Some((name, value)) => (name, Some(value)),
            None => (text, None),
        };
        let (name, differs) = match (value, name.strip_suffix('!')) {
            (Some(_), Some(name)) => (name, true),
            _ => (name, false),
        };
        if denied && value.is_some() {
            return Err(format!("!{text} must be {name}!=VALUE or !{name}"));
        }
        check_label_name(name)?;
        value.map_or(Ok(()), check_label_value)?;
        Ok(Self { name: name.into(), value: value.map(Into::into), is_not: denied || differs })
    }

    /// Whether a member with these labels meets it. A member without the label meets `!name` and `name!=value`.
    #[must_use]
    pub fn holds(&self, labels: &Labels) -> bool {
        self.is_met_by(labels.get(&self.name).map(|value| &**value))
    }

    fn is_met_by(&self, has: Option<&str>) -> bool {
        let is = match (has, self.value.as_deref()) {
            (Some(has), Some(value)) => has == value,
            (has, _) => has.is_some() && self.value.is_none(),
        };
        is != self.is_not
    }

    /// Whether no member meets both.
    #[must_use]
    pub fn excludes(&self, other: &Self) -> bool {
        // No label has the value "", so it stands for a value that neither of them names.
        let has = [None, Some(""), self.value.as_deref(), other.value.as_deref()];
        self.name == other.name
            && !has.into_iter().any(|has| self.is_met_by(has) && other.is_met_by(has))
    }
}

impl fmt::Display for LabelRule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { name, value, is_not } = self;
        match (value, is_not) {
            (None, false) => f.write_str(name),
            (None, true) => write!(f, "!{name}"),
            (Some(value), false) => write!(f, "{name}={value}"),
            (Some(value), true) => write!(f, "{name}!={value}"),
        }
    }
}

/// Where the keys of a policy go.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct PlaceRule {
    /// A member must meet all of these to be given a key.
    pub require: Box<[LabelRule]>,
    /// Of the members that may have a key and have room, those that meet the earlier ones come first.
    pub prefer: Box<[LabelRule]>,
    /// The keys are spread evenly over the values of this label.
    pub spread: Option<Box<str>>,
}

impl PlaceRule {
    /// Whether it says nothing.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// Whether a member with these labels may have a key.
    #[must_use]
    pub fn allows(&self, labels: &Labels) -> bool {
        self.require.iter().all(|rule| rule.holds(labels))
    }

    /// How far a member with these labels is from what is preferred; 0 if it meets everything. An earlier preference
    /// counts more than all later ones.
    #[must_use]
    pub fn tier(&self, labels: &Labels) -> u32 {
        let misses = self.prefer.iter().map(|rule| u32::from(!rule.holds(labels)));
        misses.fold(0, |tier, miss| tier << 1 | miss)
    }

    /// The value over which keys are spread that a member with these labels has; empty if it does not have the label.
    #[must_use]
    pub fn spread_value<'a>(&self, labels: &'a Labels) -> &'a str {
        let name = self.spread.as_deref();
        name.and_then(|name| labels.get(name)).map_or("", |value| value)
    }

    /// What of `prefer` a member with these labels meets, as a text.
    #[must_use]
    pub fn met(&self, labels: &Labels) -> String {
        let met = self.prefer.iter().filter(|rule| rule.holds(labels));
        met.map(ToString::to_string).collect::<Vec<_>>().join(", ")
    }

    /// What of `require` a member with these labels does not meet, as a text.
    #[must_use]
    pub fn missing(&self, labels: &Labels) -> String {
        let missing = self.require.iter().filter(|rule| !rule.holds(labels));
        missing.map(ToString::to_string).collect::<Vec<_>>().join(", ")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rules(texts: &[&str]) -> Box<[LabelRule]> {
        texts.iter().map(|text| LabelRule::parse(text).expect("a rule")).collect()
    }

    fn labels(pairs: &[(&str, &str)]) -> Labels {
        pairs.iter().map(|(name, value)| ((*name).into(), (*value).into())).collect()
    }

    #[test]
    fn the_four_forms_are_read_shown_and_kept() {
        let (gpu, cpu, none) =
            (labels(&[("gpu", "true")]), labels(&[("gpu", "false")]), labels(&[]));
        for (text, holds) in [
            ("gpu", [true, true, false]),
            ("!gpu", [false, false, true]),
            ("gpu=true", [true, false, false]),
            ("gpu!=true", [false, true, true]),
        ] {
            let rule = LabelRule::parse(text).expect("a rule");
            assert_eq!(rule.to_string(), text);
            assert_eq!([&gpu, &cpu, &none].map(|labels| rule.holds(labels)), holds, "{text}");
        }
        for text in
            ["", "!", "=", "=v", "a=", "a!=", "!a=v", "!a!=v", "a b", "a=b c", "a==b", "!!a"]
        {
            assert!(LabelRule::parse(text).is_err(), "{text:?}");
        }
    }

    #[test]
    fn entries_that_no_member_meets_together_are_known() {
        let forms = ["a", "!a", "a=1", "a!=1", "a=2", "a!=2", "b", "!b", "b=1", "b!=1"];
        let values = [None, Some("1"), Some("2"), Some("3")];
        let member = |a: Option<&str>, b: Option<&str>| {
            let pairs = [("a", a), ("b", b)].into_iter();
            labels(&pairs.filter_map(|(name, value)| Some((name, value?))).collect::<Vec<_>>())
        };
        let members: Vec<Labels> =
            values.iter().flat_map(|a| values.iter().map(|b| member(*a, *b))).collect();
        for one in &rules(&forms) {
            for other in &rules(&forms) {
                let meet = members.iter().any(|labels| one.holds(labels) && other.holds(labels));
                assert_eq!(one.excludes(other), !meet, "{one} {other}");
            }
        }
    }

    #[test]
    fn an_earlier_preference_counts_more_than_all_later_ones() {
        let rule =
            PlaceRule { prefer: rules(&["disk=ssd", "zone=a", "big"]), ..PlaceRule::default() };
        let order = [
            labels(&[("disk", "ssd"), ("zone", "a"), ("big", "1")]),
            labels(&[("disk", "ssd"), ("zone", "a")]),
            labels(&[("disk", "ssd"), ("big", "1")]),
            labels(&[("disk", "ssd")]),
            labels(&[("zone", "a"), ("big", "1")]),
            labels(&[("zone", "a")]),
            labels(&[("big", "1")]),
            labels(&[]),
        ];
        let tiers: Vec<u32> = order.iter().map(|labels| rule.tier(labels)).collect();
        assert_eq!(tiers, [0, 1, 2, 3, 4, 5, 6, 7]);
    }

    #[test]
    fn all_that_is_required_must_be_met() {
        let rule = PlaceRule { require: rules(&["gpu=true", "!spot"]), ..PlaceRule::default() };
        assert!(rule.allows(&labels(&[("gpu", "true")])));
        let spot = labels(&[("gpu", "true"), ("spot", "1")]);
        assert!(!rule.allows(&spot) && rule.missing(&spot) == "!spot");
        assert!(!rule.allows(&labels(&[])) && rule.missing(&labels(&[])) == "gpu=true");
        assert!(PlaceRule::default().allows(&labels(&[])) && PlaceRule::default().is_empty());
    }
}
