//! Panics of a run, also those that a supervisor made good: there is to be none but those that a fault injects.

use std::{cell::RefCell, panic, sync::Once};

thread_local! {
    static HEARD: RefCell<Vec<String>> = const { RefCell::new(Vec::new()) };
}

static LISTENING: Once = Once::new();

/// Those of this thread since the last time.
pub fn take() -> Vec<String> {
    LISTENING.call_once(|| {
        let before = panic::take_hook();
        panic::set_hook(Box::new(move |panic| {
            let text = panic.to_string();
            if text.contains("a panic was injected") {
                return;
            }
            HEARD.with_borrow_mut(|heard| heard.push(format!("a panic: {text}")));
            if std::env::var_os("RUST_BACKTRACE").is_some() {
                before(panic);
            }
        }));
    });
    HEARD.take()
}
