//! Ends that fall due at one instant take turns: whoever shares the thread waits for a few of them,
//! not for all.

use std::{
    cell::{Cell, RefCell},
    collections::VecDeque,
};

/// How many ends of one thread are written at a time: enough for large groups of writes, few enough
/// that a heartbeat between them waits for some milliseconds at most.
const PERMITS: usize = 1024;

thread_local! {
    static GATE: Gate = Gate::default();
}

#[derive(Default)]
struct Gate {
    inside: Cell<usize>,
    queue: RefCell<VecDeque<Box<dyn FnOnce()>>>,
}

/// Leave to write an end. Its drop lets the next one in, also when its actor dies.
pub struct Permit(());

/// Enters the gate of this thread; where it is full, `call` is called when it is this caller's turn to
/// try again.
pub fn enter(call: impl FnOnce() + 'static) -> Option<Permit> {
    GATE.with(|gate| {
        if gate.inside.get() < PERMITS {
            gate.inside.set(gate.inside.get() + 1);
            return Some(Permit(()));
        }
        gate.queue.borrow_mut().push_back(Box::new(call));
        None
    })
}

impl Drop for Permit {
    fn drop(&mut self) {
        let next = GATE.try_with(|gate| {
            gate.inside.set(gate.inside.get().saturating_sub(1));
            // No borrow is held while anybody is called, so this one cannot fail.
            gate.queue.try_borrow_mut().ok().and_then(|mut queue| queue.pop_front())
        });
        if let Ok(Some(call)) = next {
            call();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::rc::Rc;

    use super::*;

    #[test]
    fn the_gate_lets_in_as_many_as_it_has_permits_and_then_one_for_one() {
        let mut inside: Vec<_> = (0..PERMITS).filter_map(|_| enter(|| ())).collect();
        let turn = Rc::new(Cell::new(0));
        for _ in 0..2 {
            let turn = turn.clone();
            assert!(enter(move || turn.set(turn.get() + 1)).is_none());
        }
        drop(inside.pop());
        assert_eq!(turn.get(), 1);
        drop(inside);
        assert_eq!(turn.get(), 2);
        assert!(enter(|| ()).is_some());
    }
}
