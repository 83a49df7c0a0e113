//! Adds to JSON log lines the ids of the span for which the thread works.

use std::fmt;

use tracing::{Event, Subscriber};
use tracing_subscriber::{
    fmt::{
        FmtContext,
        format::{FormatEvent, FormatFields, Writer},
    },
    registry::LookupSpan,
};

use super::trace;

/// Formats lines as `F` does, one JSON object each, and adds `trace_id` and `span_id`.
pub(super) struct TracedLines<F>(pub(super) F);

impl<S, N, F> FormatEvent<S, N> for TracedLines<F>
where
    S: Subscriber + for<'a> LookupSpan<'a>,
    N: for<'a> FormatFields<'a> + 'static,
    F: FormatEvent<S, N>,
{
    fn format_event(
        &self,
        context: &FmtContext<'_, S, N>,
        mut writer: Writer<'_>,
        event: &Event<'_>,
    ) -> fmt::Result {
        let Some(trace) = trace::current() else {
            return self.0.format_event(context, writer, event);
        };
        let mut line = String::new();
        self.0.format_event(context, Writer::new(&mut line), event)?;
        let (trace, span) = trace.ids();
        match line.trim_end().strip_suffix('}') {
            Some(open) => writeln!(
                writer,
                "{open},\"trace_id\":\"{trace:032x}\",\"span_id\":\"{span:016x}\"}}"
            ),
            None => writer.write_str(&line),
        }
    }
}
