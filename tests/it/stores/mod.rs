//! One suite that every store passes: what the protocol needs of a store, and nothing besides.
//!
//! A store joins with a [`Subject`] in a file of its own and one line of [`conformance!`]. `SEED`
//! replays the random parts of a run; `BUDGET` multiplies how many seeds the runs under faults take.

mod any;
pub mod demands;
mod dynamodb;
mod embedded;
mod fair;
mod faulty;
mod forgotten;
mod jump;
pub mod lab;
mod late;
mod left;
mod meddled;
mod nats;
mod ordered;
mod orphaned;
mod pages;
mod reorder;
mod retried;
mod settle;
pub mod shapes;
mod share;
pub mod subject;
pub mod suite;
mod warming;

/// Makes one test of every demand, for one store.
macro_rules! conformance {
    ($name:ident, $subject:ty) => {
        mod $name {
            use super::*;
            use $crate::stores::{conformance_of, demands::demands};
            demands! { conformance_of! $subject; }
        }
    };
}
pub(crate) use conformance;

macro_rules! conformance_of {
    ($subject:ty; $($theme:ident :: $demand:ident;)*) => {
        $(
            #[tokio::test]
            async fn $demand() {
                let subject = <$subject as $crate::stores::subject::Subject>::start().await;
                $crate::stores::suite::$theme::$demand(&subject).await;
            }
        )*
    };
}
pub(crate) use conformance_of;
