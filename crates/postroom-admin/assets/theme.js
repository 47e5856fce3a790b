// Runs before the page is painted, so that it never flashes in the wrong colours.
{
  let theme = null;
  try {
    theme = localStorage.getItem("postroom-theme");
  } catch {
    // Without storage the system decides.
  }
  if (theme === "light" || theme === "dark") {
    document.documentElement.dataset.theme = theme;
  }
}
