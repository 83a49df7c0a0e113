//! The files of the page, which the program contains.
//!
//! Guarantees: together they have 200 KiB at most. None of them names another server.

use std::{collections::HashMap, sync::LazyLock};

use bytes::Bytes;
use sha2::{Digest as _, Sha256};

/// A file, as a browser gets it.
pub struct File {
    /// The type of its content.
    pub kind: &'static str,
    /// Its content.
    pub body: Bytes,
    /// By which a browser that has it knows that it has not changed.
    pub tag: String,
}

impl File {
    fn new(kind: &'static str, body: impl Into<Bytes>) -> Self {
        let body = body.into();
        let digest = Sha256::digest(&body);
        let digits: String = digest.iter().take(16).map(|byte| format!("{byte:02x}")).collect();
        Self { kind, body, tag: format!("\"{digits}\"") }
    }
}

const SCRIPT: &str = "text/javascript; charset=utf-8";
const STYLE: &str = "text/css; charset=utf-8";

/// Names of files in the folder `assets/page`, each with its content.
macro_rules! of_page {
    ($($name:literal,)*) => {
        &[$(($name, include_str!(concat!("assets/page/", $name)))),*]
    };
}

/// The modules of the page. `main.js` imports the others.
const MODULES: &[(&str, &str)] = of_page![
    "api.js",
    "attention.js",
    "connection.js",
    "copy.js",
    "cursor.js",
    "dom.js",
    "event-list.js",
    "feed.js",
    "filters.js",
    "hidden.js",
    "keys.js",
    "kinds.js",
    "main.js",
    "order-dialog.js",
    "orders.js",
    "past.js",
    "person.js",
    "plots.js",
    "repeat.js",
    "rights.js",
    "route.js",
    "series.js",
    "slots.js",
    "table.js",
    "text.js",
    "ticks.js",
    "time.js",
    "view-churn.js",
    "view-events.js",
    "view-lease.js",
    "view-leases.js",
    "view-nodes.js",
    "view-overview.js",
    "view-pools.js",
    "view-sessions.js",
];

/// The library that draws plots is a script. As a module, it is read when the first plot is drawn.
const PLOTS: &str = concat!(
    include_str!("assets/vendor/uplot-1.6.32/uPlot.iife.min.js"),
    "\nexport default uPlot;\n"
);

/// The other files.
const OTHERS: &[(&str, &str, &str)] = &[
    ("page.css", STYLE, include_str!("assets/page/page.css")),
    ("icon.svg", "image/svg+xml", include_str!("assets/page/icon.svg")),
    ("uplot.js", SCRIPT, PLOTS),
    ("uplot.css", STYLE, include_str!("assets/vendor/uplot-1.6.32/uPlot.min.css")),
    (
        "uplot-license.txt",
        "text/plain; charset=utf-8",
        include_str!("assets/vendor/uplot-1.6.32/LICENSE"),
    ),
];

/// Where the page names the modules that a browser reads at once, instead of one after the other.
const PLACE: &str = "<!-- modules -->";

/// The page itself.
pub static PAGE: LazyLock<File> = LazyLock::new(|| {
    let link = |(name, _): &(&str, &str)| {
        format!("<link rel=\"modulepreload\" href=\"/assets/{name}\">\n  ")
    };
    let links: String = MODULES.iter().map(link).collect();
    let page = include_str!("assets/page/page.html").replace(PLACE, links.trim_end());
    File::new("text/html; charset=utf-8", page)
});

/// The files that it names, by the names under which they are served.
pub static FILES: LazyLock<HashMap<&'static str, File>> = LazyLock::new(|| {
    let modules = MODULES.iter().map(|(name, text)| (*name, File::new(SCRIPT, *text)));
    let others = OTHERS.iter().map(|(name, kind, text)| (*name, File::new(kind, *text)));
    modules.chain(others).collect()
});

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::lease::ChangeKind;

    /// The most that a browser reads in all, in bytes.
    const MOST: usize = 200 * 1024;

    fn text(file: &File) -> &str {
        std::str::from_utf8(&file.body).expect("text")
    }

    /// The names of files that a text has between these words and a quotation mark.
    fn named<'a>(text: &'a str, before: &str) -> BTreeSet<&'a str> {
        text.split(before).skip(1).filter_map(|rest| rest.split('"').next()).collect()
    }

    #[test]
    fn the_page_and_its_files_are_small() {
        let files: usize = FILES.values().map(|file| file.body.len()).sum();
        let all = files + PAGE.body.len();
        assert!(all <= MOST, "{all} bytes");
        assert!(PAGE.body.len() < 8 * 1024, "the first answer is {} bytes", PAGE.body.len());
    }

    #[test]
    fn every_file_that_the_page_or_a_module_names_is_there_and_no_other() {
        let mut wanted = named(text(&PAGE), "=\"/assets/");
        for (_, module) in MODULES {
            wanted.extend(named(module, "from \"./"));
            wanted.extend(named(module, "import(\"./"));
        }
        let there: BTreeSet<&str> = FILES.keys().copied().collect();
        assert_eq!(wanted, there);
        assert!(!text(&PAGE).contains(PLACE));
    }

    /// Names of XML are no addresses to ask.
    #[test]
    fn no_file_names_another_server_and_the_page_has_no_script_or_style_of_its_own() {
        let own = MODULES.iter().map(|(name, _)| *name).chain(["page.css"]);
        for (name, text) in own.map(|name| (name, text(&FILES[name]))).chain([("/", text(&PAGE))]) {
            for word in ["http://", "https://", "innerHTML", "insertAdjacentHTML", "eval("] {
                assert!(!text.contains(word), "{name} has {word}");
            }
            for word in ["localStorage", "sessionStorage", "document.cookie", "indexedDB"] {
                assert!(!text.contains(word), "{name} has {word}");
            }
        }
        let page = text(&PAGE);
        for word in ["<style", " style=", " onclick=", "<script>", "javascript:"] {
            assert!(!page.contains(word), "the page has {word}");
        }
        assert_eq!(page.matches("<script").count(), 1);
    }

    #[test]
    fn the_page_knows_every_kind_of_change() {
        let kinds = text(&FILES["kinds.js"]);
        let list = kinds.split("KINDS = [").nth(1).and_then(|rest| rest.split(']').next());
        let listed: BTreeSet<&str> = list.expect("a list").split('"').skip(1).step_by(2).collect();
        let all: BTreeSet<&str> = ChangeKind::ALL.iter().map(|kind| kind.as_str()).collect();
        assert_eq!(listed, all);
    }

    #[test]
    fn a_tag_is_that_of_the_content() {
        let (one, other) = (File::new(SCRIPT, "a"), File::new(STYLE, "b"));
        assert_eq!(one.tag, File::new(STYLE, "a").tag);
        assert_ne!(one.tag, other.tag);
        assert_eq!(one.tag.len(), 34, "{}", one.tag);
    }
}
