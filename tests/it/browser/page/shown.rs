//! The page in a tab, and what a person sees and does there.

use serde_json::{Value, json};

use crate::support::{
    chromium::{Chromium, Tab},
    harness::Server,
};

/// Notes what goes wrong in the page.
const WATCH: &str = "window.wrong = [];
    addEventListener('error', (event) => wrong.push(String(event.message)));
    addEventListener('unhandledrejection', (event) => wrong.push(String(event.reason)));
    document.addEventListener('securitypolicyviolation',
        (event) => wrong.push(`${event.effectiveDirective} ${event.blockedURI}`));";

/// The page of a coordinator, in a browser of its own.
pub struct Page {
    pub browser: Chromium,
    pub tab: Tab,
}

impl Page {
    /// The page at this place, such as `#/leases`.
    pub async fn open(server: &Server, place: &str) -> Self {
        Self::within(Chromium::start(&[]), server, place).await
    }

    /// The same, in this browser.
    pub async fn within(mut browser: Chromium, server: &Server, place: &str) -> Self {
        let url = format!("http://{}/{place}", server.addr);
        let tab = browser.open_watched(&url, WATCH).await;
        Self { browser, tab }
    }

    /// The value of an expression.
    pub async fn value(&mut self, expression: &str) -> Value {
        self.browser.evaluate(&self.tab, expression).await
    }

    /// A number.
    pub async fn number(&mut self, expression: &str) -> f64 {
        let value = self.value(expression).await;
        value.as_f64().unwrap_or_else(|| panic!("{expression} is {value}"))
    }

    /// Waits until the expression is `true`.
    pub async fn until(&mut self, expression: &str) {
        self.browser.until(&self.tab, expression).await;
    }

    /// Waits until an element that this selector finds is seen and has the text.
    pub async fn shows(&mut self, selector: &str, text: &str) {
        let has = seen(selector, text);
        self.until(&has).await;
    }

    /// Waits until no such element is seen.
    pub async fn hides(&mut self, selector: &str, text: &str) {
        let has = seen(selector, text);
        self.until(&format!("!({has})")).await;
    }

    /// The text of the first element that this selector finds.
    pub async fn text(&mut self, selector: &str) -> String {
        let value =
            self.value(&format!("document.querySelector({}).textContent", json!(selector))).await;
        value.as_str().expect("a text").to_owned()
    }

    /// How many elements this selector finds.
    pub async fn count(&mut self, selector: &str) -> f64 {
        self.number(&format!("document.querySelectorAll({}).length", json!(selector))).await
    }

    /// Goes to another place of the page.
    pub async fn go(&mut self, place: &str) {
        let go = "(place) => new Promise((done) => { if (location.hash === place) return done(null); \
                  addEventListener('hashchange', () => done(null), { once: true }); \
                  location.hash = place; })";
        self.value(&format!("({go})({})", json!(place))).await;
    }

    /// Types a text into a field.
    pub async fn fill(&mut self, selector: &str, text: &str) {
        let fill = "(selector, text) => { const field = document.querySelector(selector); field.focus(); \
                    field.value = text; field.dispatchEvent(new Event('input', { bubbles: true })); }";
        self.value(&format!("({fill})({}, {})", json!(selector), json!(text))).await;
    }

    /// Presses a button, follows a link, or ticks a box, as soon as it is there.
    pub async fn click(&mut self, selector: &str) {
        let selector = json!(selector);
        self.until(&format!("document.querySelector({selector})?.checkVisibility() === true"))
            .await;
        self.value(&format!("document.querySelector({selector}).click()")).await;
    }

    /// Nothing went wrong in the page so far.
    pub async fn is_clean(&mut self) {
        assert_eq!(self.value("window.wrong").await, json!([]));
    }
}

/// Whether an element that this selector finds is seen and has the text.
fn seen(selector: &str, text: &str) -> String {
    format!(
        "[...document.querySelectorAll({})].some((one) => one.checkVisibility() && \
         one.textContent.includes({}))",
        json!(selector),
        json!(text)
    )
}
