export const round = (value: number) => Number(value.toFixed(3));

// Start and angle of another turn, spread over the disc and over the angles of the training data.
export const turnNumber = (k: number) => {
  const part = (step: number) => (k * step) % 1;
  return {
    x: round(1.4 * part(0.7549) - 0.7),
    y: round(1.4 * part(0.5698) - 0.7),
    theta: round(0.4 + 1.9 * part(0.618)),
  };
};
