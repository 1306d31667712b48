"""What papers promise, beside what the suites measure; no part of any fit."""
