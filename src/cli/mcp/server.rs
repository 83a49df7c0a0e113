//! The server: reads messages one after the other, and serves the calls of tools side by side.

use std::{
    collections::{HashMap, VecDeque},
    sync::Arc,
};

use rustix::process::Signal;
use serde_json::{Map, Value, json};
use tokio::{
    sync::{mpsc, oneshot},
    task::{Id, JoinError, JoinSet},
};

use super::{
    answer::Claimed,
    arguments::Arguments,
    call, handshake,
    holder::Holder,
    lines::Line,
    message::{self, BUSY, Fault, INTERNAL_ERROR, METHOD_NOT_FOUND, Message, PARSE_ERROR},
    tools::{self, Tool},
};
use crate::{cli::output::talk, worker::signals::is_ending};

/// The most calls in progress. An agent makes a few at a time.
const MOST_CALLS: usize = 32;
/// How many claims that were answered are remembered, for cancellations that cross their answers.
const REMEMBERED: usize = 32;

/// A server on one client's input and output.
#[derive(Debug)]
pub(super) struct Server {
    holder: Arc<Holder>,
    out: mpsc::Sender<String>,
    tasks: JoinSet<Option<Claimed>>,
    /// The calls in progress.
    calls: HashMap<Id, Call>,
    /// The latest claims that were answered, with the ids of their requests.
    answered: VecDeque<(Value, Claimed)>,
}

/// A call in progress.
#[derive(Debug)]
struct Call {
    /// The id of its request.
    id: Value,
    tool: Tool,
    /// The call is given up when this is dropped.
    goes_on: Option<oneshot::Sender<()>>,
}

/// The client does not read its answers.
struct Gone;

impl Server {
    pub(super) fn new(holder: Arc<Holder>, out: mpsc::Sender<String>) -> Self {
        let (tasks, calls, answered) = (JoinSet::new(), HashMap::new(), VecDeque::new());
        Self { holder, out, tasks, calls, answered }
    }

    /// Serves until the input ends, nobody reads the output, or a signal asks for the end.
    pub(super) async fn serve(
        &mut self,
        mut lines: mpsc::Receiver<Line>,
        mut signals: mpsc::Receiver<Signal>,
    ) {
        loop {
            tokio::select! {
                line = lines.recv() => match line {
                    Some(line) => if self.take(line).is_err() {
                        talk("the client does not read its answers: the server ends");
                        return;
                    },
                    None => return,
                },
                Some(ended) = self.tasks.join_next_with_id() => self.ended(ended),
                () = self.out.closed() => return,
                Some(signal) = signals.recv() => if is_ending(signal) {
                    return;
                },
            }
        }
    }

    /// Gives up the calls that wait, and gives back all leases. Other calls in progress are answered.
    pub(super) async fn end(&mut self) {
        for call in self.calls.values_mut().filter(|call| call.tool.waits()) {
            call.goes_on = None;
        }
        let Self { holder, tasks, .. } = self;
        let answers = async { while tasks.join_next().await.is_some() {} };
        tokio::join!(holder.release_all(), answers);
        holder.client.settled().await;
    }

    fn take(&mut self, line: Line) -> Result<(), Gone> {
        let line = match line {
            Line::Whole(line) if line.trim_ascii().is_empty() => return Ok(()),
            Line::Whole(line) => line,
            Line::TooLong => {
                let fault = Fault::new(PARSE_ERROR, "the line is longer than 1 MiB");
                return self.say(fault.line(&Value::Null));
            }
        };
        match Message::read(&line) {
            Ok(Message::Request { id, method, params }) => self.asked(id, &method, params),
            Ok(Message::Notification { method, params }) => {
                if method == "notifications/cancelled"
                    && let Some(id) = params.get("requestId")
                {
                    self.cancelled(id);
                }
                Ok(())
            }
            Ok(Message::Answer) => Ok(()),
            Err((id, fault)) => self.say(fault.line(&id)),
        }
    }

    fn asked(&mut self, id: Value, method: &str, params: Map<String, Value>) -> Result<(), Gone> {
        let result = match method {
            "initialize" => handshake::initialize(&params, &self.holder.owner),
            "ping" => Ok(json!({})),
            "tools/list" => Ok(tools::listed()),
            "tools/call" => match call::read(params) {
                Ok((tool, given)) => return self.start(id, tool, given),
                Err(fault) => Err(fault),
            },
            _ => Err(Fault::new(METHOD_NOT_FOUND, format!("there is no method {method:?}"))),
        };
        match result {
            Ok(result) => self.say(message::answer(&id, &result)),
            Err(fault) => self.say(fault.line(&id)),
        }
    }

    /// Starts to serve a call of a tool.
    fn start(&mut self, id: Value, tool: Tool, given: Arguments) -> Result<(), Gone> {
        if self.tasks.len() >= MOST_CALLS {
            let fault = format!("{MOST_CALLS} calls are in progress: wait for one of them");
            return self.say(Fault::new(BUSY, fault).line(&id));
        }
        let (goes_on, given_up) = oneshot::channel();
        let (holder, out, asked) = (self.holder.clone(), self.out.clone(), id.clone());
        let task = self.tasks.spawn(async move {
            let answer = tokio::select! {
                biased;
                _ = given_up => return None,
                answer = call::serve(&holder, tool, given) => answer,
            };
            let (result, claimed) = answer.result(&holder.notices());
            // If this fails, the client is gone, and the process ends.
            let _ = out.send(message::answer(&asked, &result)).await;
            claimed
        });
        self.calls.insert(task.id(), Call { id, tool, goes_on: Some(goes_on) });
        Ok(())
    }

    /// The client gives up the request with this id.
    fn cancelled(&mut self, id: &Value) {
        for call in self.calls.values_mut().filter(|call| call.id == *id) {
            call.goes_on = None;
        }
        // Its answer may have crossed the cancellation. The client does not read it, so its agent does not know that it
        // holds the key.
        while let Some(at) = self.answered.iter().position(|(answered, _)| answered == id) {
            if let Some((_, claimed)) = self.answered.remove(at) {
                self.holder.give_up(&claimed);
            }
        }
    }

    /// A call was answered, or given up.
    fn ended(&mut self, ended: Result<(Id, Option<Claimed>), JoinError>) {
        let (task, claimed) = match ended {
            Ok((task, claimed)) => (task, Ok(claimed)),
            Err(error) => (error.id(), Err(error)),
        };
        let Some(call) = self.calls.remove(&task) else { return };
        match claimed {
            Ok(None) => {}
            Ok(Some(claimed)) if call.goes_on.is_none() => self.holder.give_up(&claimed),
            Ok(Some(claimed)) => {
                if self.answered.len() >= REMEMBERED {
                    self.answered.pop_front();
                }
                self.answered.push_back((call.id, claimed));
            }
            Err(error) => {
                talk(&format!("a call of {} failed: {error}", call.tool.name()));
                let fault = Fault::new(INTERNAL_ERROR, "the server has a fault: see its log");
                // If nobody reads it, the server ends soon.
                let _ = self.say(fault.line(&call.id));
            }
        }
    }

    /// Sends a line, and does not wait: a client that leaves so many answers unread is not there any more.
    fn say(&self, line: String) -> Result<(), Gone> {
        self.out.try_send(line).map_err(|_| Gone)
    }
}
