// Before the page is drawn: light or dark as it was chosen last here, else as the system has it.
"use strict";
try {
  const chosen = localStorage.getItem("rollcall-theme");
  if (chosen === "light" || chosen === "dark") document.documentElement.dataset.theme = chosen;
} catch (error) {
  // Without storage nothing is remembered.
}
