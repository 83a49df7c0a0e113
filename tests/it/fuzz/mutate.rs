//! Random changes of seeds, the same for the same number.

/// Makes inputs.
pub struct Mutator<'a> {
    state: u64,
    seeds: &'a [Vec<u8>],
}

/// What readers of numbers, text and lists find hard.
const TOKENS: [&[u8]; 24] = [
    b"0",
    b"-1",
    b"+1",
    b"01",
    b"1e9",
    b"18446744073709551615",
    b"18446744073709551616",
    b"null",
    b"true",
    b"\"\"",
    b"[]",
    b"{}",
    b"{\"",
    b"\\u0000",
    b"\\ud800",
    b"\xff",
    b"\xc2\x85",
    b"\x7f",
    b"\n",
    b"%",
    b"%00",
    b"=",
    b"-",
    b"[[",
];

impl<'a> Mutator<'a> {
    pub fn new(seed: u64, seeds: &'a [Vec<u8>]) -> Self {
        Self { state: seed, seeds }
    }

    /// SplitMix64.
    fn next(&mut self) -> u64 {
        self.state = self.state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.state;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    fn below(&mut self, end: usize) -> usize {
        (self.next() % end.max(1) as u64) as usize
    }

    /// A seed with one to eight changes.
    pub fn input(&mut self) -> Vec<u8> {
        let at = self.below(self.seeds.len());
        let mut input = self.seeds[at].clone();
        for _ in 0..=self.below(8) {
            self.change(&mut input);
        }
        input
    }

    fn change(&mut self, input: &mut Vec<u8>) {
        let (from, to) = self.range(input.len());
        match self.below(9) {
            0 if from < to => input[from] ^= 1 << self.below(8),
            1 if from < to => input[from] = self.next() as u8,
            2 => drop(input.drain(from..to)),
            3 => {
                let part = input[from..to].to_vec();
                input.splice(from..from, part);
            }
            4 => input.truncate(to),
            5 => {
                let other = self.below(self.seeds.len());
                let (start, end) = self.range(self.seeds[other].len());
                let part = self.seeds[other][start..end].to_vec();
                input.splice(from..to, part);
            }
            6 => input.insert(from, self.next() as u8),
            _ => {
                let token = TOKENS[self.below(TOKENS.len())];
                let to = if self.next() & 1 == 0 { from } else { to };
                input.splice(from..to, token.iter().copied());
            }
        }
        input.truncate(8192);
    }

    /// A part of something so long, mostly a short one.
    fn range(&mut self, length: usize) -> (usize, usize) {
        let from = self.below(length);
        let most = if self.next() & 3 == 0 { length } else { 8 };
        (from, from + self.below(most.min(length - from) + 1))
    }
}
